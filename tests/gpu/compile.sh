#!/usr/bin/env bash
# Compiles all device code with nvcc for every target and links it into a coordinator: what can be proven of it on a machine
# without a GPU, beside its logic, which the unit tests run on the host twin, and the image (tests/deploy). Skips, and says so, where there is no nvcc of CUDA 13 (NUMOE_NVCC, PATH
# or /usr/local/cuda); tests/gpu/toolkit.sh gets one.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! nvcc=$(tests/gpu/toolkit.sh --present); then
  echo "no nvcc of CUDA 13 here: device code is not compiled" >&2
  exit 0
fi
cmake --preset cuda -DNUMOE_NVCC="$nvcc" >/dev/null
cmake --build build/cuda --target cuda_kernels numoe-coordinator
echo "device code compiles with $("$nvcc" --version | grep -o 'release [0-9.]*')"
