#!/usr/bin/env bash
# Builds the images from programs that are built already, and tests what is deployed: run.sh [--bin DIR] [TEST...]
# If there is an nvcc, tests/gpu/compile.sh builds the CUDA variant's coordinator. Installs tests/deploy/packages.txt. Tests that need
# a package that cannot be installed, or something that is not allowed here, are skipped with the reason; with NUMOE_REQUIRE=1 a package
# that cannot be installed is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/lib/install.sh
bin=build/release/bin
if [ "${1:-}" = --bin ]; then bin=$2; shift 2; fi
if ! install_packages tests/deploy/packages.txt; then
  echo "SKIPPED some tests of tests/deploy: not installed: packages of tests/deploy/packages.txt" >&2
  [ "${NUMOE_REQUIRE:-}" != 1 ] || exit 1
fi
cuda=()
if nvcc=$(tests/gpu/toolkit.sh --present); then
  tests/gpu/compile.sh
  cuda=(--cuda-coordinator build/cuda/bin/numoe-coordinator --cuda "$(dirname "$(dirname "$(realpath "$nvcc")")")")
fi
exec python3 tests/deploy/run.py --bin "$bin" "${cuda[@]}" "$@"
