#!/usr/bin/env bash
# Packs what tests a GPU on a machine that has CUDA's driver and nothing of ours: programs built with nvcc here, the
# libraries that they load, the trained model. One folder, build/gpu_bundle, whose run.sh needs no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
nvcc=$(tests/gpu/toolkit.sh)
cmake --preset cuda -DNUMOE_NVCC="$nvcc" >/dev/null
cmake --build build/cuda --target gpu_tests numoe-coordinator numoe-expert-worker numoe-kernel-bench
bundle=build/gpu_bundle
rm -rf "$bundle"
mkdir -p "$bundle"/{bin,lib,tests}
cp build/cuda/bin/{numoe-coordinator,numoe-expert-worker,numoe-kernel-bench} "$bundle/bin/"
cp build/cuda/tests_gpu/* "$bundle/tests/"
strip "$bundle"/bin/* "$bundle"/tests/*
# Everything but the C library, the loader and the driver, which must be the other machine's or come with the loader.
for program in "$bundle"/bin/* "$bundle"/tests/*; do ldd "$program" | awk '$3 ~ /^\// {print $3}'; done | sort -u |
  xargs -I{} cp -L {} "$bundle/lib/"
cp -L /lib64/ld-linux-x86-64.so.2 "$bundle/lib/"
cp -r deploy/models/nano "$bundle/nano"
cp tests/gpu/run.sh "$bundle/"
git rev-parse HEAD >"$bundle/commit"
du -sh "$bundle"
