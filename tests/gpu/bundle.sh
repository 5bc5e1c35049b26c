#!/usr/bin/env bash
# Packs everything that a machine with CUDA's driver, but without this project, needs to run the GPU tests: programs built
# with nvcc here, the libraries that they load, models and expected logits. build/gpu_bundle has the folders of this tree
# and needs no network: copy it there and run its tests/gpu/run.sh. build/gpu_programs.tar.xz has only the files that a
# checkout of the tree lacks; unpack it in the root of a checkout there. NUMOE_CUDA_TARGETS: nvcc's -gencode arguments,
# separated by semicolons; fewer of them make the bundle smaller.
set -euo pipefail
cd "$(dirname "$0")/../.."
nvcc=$(tests/gpu/toolkit.sh)
cmake --preset cuda -DNUMOE_NVCC="$nvcc" ${NUMOE_CUDA_TARGETS:+-DNUMOE_CUDA_TARGETS="$NUMOE_CUDA_TARGETS"} >/dev/null
programs=(numoe-coordinator numoe-expert-worker numoe-kernel-bench numoe-gpu-bench)
cpu_tests=(kernels_tests)
cmake --build build/cuda --target gpu_tests "${programs[@]}" "${cpu_tests[@]}"
bundle=build/gpu_bundle
built=$bundle/build/cuda
rm -rf "$bundle"
mkdir -p "$built"/{bin,lib,libc,tests} "$bundle"/{deploy/models,tests/bench,tests/golden,tests/gpu}
cp "${programs[@]/#/build/cuda/bin/}" "$built/bin/"
cp "${cpu_tests[@]/#/build/cuda/tests/}" "$built/tests/"
cp -r build/cuda/tests_gpu "$built/"
strip "$built"/{bin,tests,tests_gpu}/*
# The C library must be the one with which the driver's libraries are loaded, that of the other machine. The C library of
# this machine is packed separately for machines with an older one (run.sh checks that).
for program in "$built"/{bin,tests,tests_gpu}/*; do ldd "$program" | awk '$3 ~ /^\// {print $3}'; done | sort -u |
  while read -r library; do
    case $(basename "$library") in
      libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libresolv.so.*) cp -L "$library" "$built/libc/" ;;
      *) cp -L "$library" "$built/lib/" ;;
    esac
  done
cp -L /lib64/ld-linux-x86-64.so.2 "$built/libc/"
git describe --always --dirty >"$built/commit"
cp -r deploy/models/nano "$bundle/deploy/models/"
cp -r tests/golden/data "$bundle/tests/golden/"
cp tests/bench/bench.py "$bundle/tests/bench/"
cp tests/gpu/run.sh "$bundle/tests/gpu/"
tar -C "$bundle" -cJf build/gpu_programs.tar.xz build/cuda
du -sh "$bundle" build/gpu_programs.tar.xz
