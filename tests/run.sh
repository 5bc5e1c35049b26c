#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test. Options: --quick (no sanitizer builds).
#   1 tidy      layers, header contracts, sizes, layout    tests/tidy
#   2 release   unit, differential, golden, fuzz replay    ctest
#   3 e2e       real daemons over HTTP                     tests/e2e
#   4 page      the page at / in headless Chromium         tests/page
#   5 clients   SDKs and bench clients over HTTP           tests/clients
#   6 quality   what the trained model answers, served     tests/quality
#   7 chart     renderings, schemas, its pods' commands    tests/helm
#   8 device    device code compiles with nvcc             tests/gpu
#   9 deploy    the images under podman, hosts, alerts     tests/deploy
#  10 asan      the same unit tests under ASan and UBSan
#  11 fuzz      a minute for a third of the fuzz targets   tests/fuzz/README.md
#  12 tsan      the threaded rooms' tests under TSan
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/lib/install.sh
export CCACHE_BASEDIR=$PWD  # what one preset compiled serves another with the same flags
quick=""
[ "${1:-}" = --quick ] && quick=1

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }
step "packages"
install_packages deploy/packages.txt
jobs=$(nproc)

step "tidy"
python3 tests/tidy/tidy.py
tests/tidy/format.sh

step "build release"
build_preset release all
step "unit tests (release)"
ctest --test-dir build/release --output-on-failure -j "$jobs" | tail -n 60
step "end to end"
python3 tests/e2e/run.py --bin build/release/bin
step "downloading a model from a bad server"
python3 tests/deploy/download_test.py
step "the page in a browser"
python3 tests/page/run.py --bin build/release/bin
step "real clients"
"${NUMOE_ORACLE_PYTHON:-python3}" tests/clients/run.py --bin build/release/bin
step "quality of the trained model"
python3 tests/quality/quality.py --format raw_int4 --slack 0.03
step "the chart"
tests/helm/run.sh

if [ -z "$quick" ]; then
  step "device code"
  tests/gpu/compile.sh | tail -n 1
  step "the images, their pod, two hosts, what watches them"
  tests/deploy/run.sh --bin build/release/bin
  step "build asan"
  build_preset asan all
  step "unit tests (ASan, UBSan)"
  LSAN_OPTIONS="suppressions=$PWD/tests/lsan_suppressions.txt:print_suppressions=0" \
    ctest --test-dir build/asan --output-on-failure -j "$jobs" | tail -n 40
  step "fuzz (ASan, UBSan)"
  tests/fuzz/run.sh build/asan/tests
  step "build tsan"
  build_preset tsan threads_tests
  step "unit tests (TSan)"
  # setarch -R: TSan of gcc 12 cannot place its shadow under the address randomisation of newer kernels.
  TSAN_OPTIONS="suppressions=$PWD/tests/tsan_suppressions.txt" \
    setarch -R ctest --test-dir build/tsan --output-on-failure -j "$jobs" -L threads | tail -n 40
fi
step "all tests passed"
