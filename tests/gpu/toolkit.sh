#!/usr/bin/env bash
# Prints the path of an nvcc of CUDA 13: the one of this machine, or one that it installs from NVIDIA's Python wheels into
# build/cuda_toolkit. Fails with an error if neither is possible. With --present it installs nothing.
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
  { echo "found no nvcc of CUDA 13, and pip cannot install NVIDIA's wheels; set NUMOE_NVCC to one" >&2; exit 1; }
wheels
