#!/usr/bin/env bash
# Compiles all device code with nvcc for every target and links it into a coordinator: what can be proven of it on a machine
# without a GPU, beside its logic, which the unit tests run on the host twin, and the image (tests/deploy). Skips, and
# says so, where there is no nvcc of CUDA 13 (NUMOE_NVCC, PATH or /usr/local/cuda); tests/gpu/toolkit.sh gets one. Where
# NUMOE_REQUIRE=1 is set, that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/lib/install.sh
if ! nvcc=$(tests/gpu/toolkit.sh --present); then
  echo "SKIPPED compiling device code: not installed: nvcc of CUDA 13 (tests/gpu/toolkit.sh gets one)" >&2
  [ "${NUMOE_REQUIRE:-}" != 1 ]
  exit
fi
cmake --preset cuda -DNUMOE_NVCC="$nvcc" >/dev/null  # build_preset configures again and keeps what is set here
build_preset cuda cuda_kernels numoe-coordinator
echo "device code compiles with $("$nvcc" --version | grep -o 'release [0-9.]*')"
