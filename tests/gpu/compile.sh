#!/usr/bin/env bash
# Compiles all device code with nvcc for every target and links it into a coordinator. On a machine without a GPU this is
# the proof of device code, together with the unit tests, which run its logic on the host's execution model, and the image
# (tests/deploy). Prints that it is skipped if there is no nvcc of CUDA 13 (NUMOE_NVCC, PATH or /usr/local/cuda);
# tests/gpu/toolkit.sh installs one. With NUMOE_REQUIRE=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/lib/install.sh
if ! nvcc=$(tests/gpu/toolkit.sh --present); then
  echo "SKIPPED compiling device code: not installed: nvcc of CUDA 13 (tests/gpu/toolkit.sh installs one)" >&2
  [ "${NUMOE_REQUIRE:-}" != 1 ]
  exit
fi
cmake --preset cuda -DNUMOE_NVCC="$nvcc" >/dev/null  # build_preset configures again and keeps what is set here
build_preset cuda cuda_kernels numoe-coordinator
echo "device code compiles with $("$nvcc" --version | grep -o 'release [0-9.]*')"
