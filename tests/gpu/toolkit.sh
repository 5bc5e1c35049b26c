#!/usr/bin/env bash
# Prints the path of an nvcc of CUDA 13: the machine's own, or one from NVIDIA's Python wheels in build/cuda_toolkit.
# Fails, and says why, where there is neither. --present: installs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
toolkit=build/cuda_toolkit
wheels() { ls "$PWD/$toolkit"/lib/python*/site-packages/nvidia/cu13/bin/nvcc 2>/dev/null; }
for nvcc in "${NUMOE_NVCC:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$(wheels || true)"; do
  [ -x "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.' && { echo "$nvcc"; exit 0; }
done
[ "${1:-}" != --present ] || exit 1
python3 -m venv "$toolkit" >&2
"$toolkit/bin/pip" install -q -r deploy/cuda_toolkit.txt >&2 ||
  { echo "no CUDA 13: no nvcc here, and pip cannot install NVIDIA's wheels" >&2; exit 1; }
wheels
