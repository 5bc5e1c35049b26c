#!/usr/bin/env bash
# Installs packages, builds, and runs the tests that show that the product works, within 25 minutes on two cores.
#   tests/run.sh                 the parts that tests/parts.txt marks "always"
#   tests/run.sh --all           every part
#   tests/run.sh --gate          the parts that the gate runs for this commit: "always" and "gate", and those of the
#                                others whose turn it is (tests/turns.py)
#   tests/run.sh PART...         only these parts, after the build that they need
#   tests/run.sh --list          the parts, with what each one does
# tests/README.md says how long each part takes and when it runs. A part that cannot run here prints "SKIPPED" and the reason;
# with NUMOE_REQUIRE=1 (the gate in CI) such a skip is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/lib/install.sh
jobs=$(nproc)
bin=build/release/bin
# Makes the release build, once in a run.
release() { [ -n "${released:-}" ] || build_preset release all; released=1; }

# WHAT[NAME] says what a part does; the function part_NAME runs it.
declare -A WHAT=(
  [tidy]="layers, header contracts, sizes, plain words, layout of the sources"
  [build]="the release build, its compiler flags and hardening"
  [unit]="unit, differential and golden tests, fuzz replays (release)"
  [e2e]="real daemons over HTTP, faults included"
  [download]="downloading a model from a server that misbehaves"
  [page]="the page in headless Chromium"
  [clients]="SDKs and bench clients of other projects"
  [quality]="the answers of the trained model through the real daemons"
  [journeys]="what README.md tells a newcomer to do, with small models"
  [chart]="the Helm chart: renderings, schemas, its pods' commands"
  [asan]="ASan and UBSan: the rooms that read bytes from outside or share memory"
  [fuzz]="new mutations for every fuzz target, a minute of them for a third (ASan)"
  [tsan]="TSan: the rooms with threads"
  [analysis]="Clang's thread-safety analysis; every source of the product compiles by itself"
  [asan-compute]="ASan and UBSan: the other rooms (kernels, devices, models, scheduler)"
  [images]="images, pod, two hosts, systemd units, dashboards and alerts"
  [packages]="the .deb and the .tar.zst: contents, and clean systems that they are installed on"
  [numa]="emulated machines with several NUMA nodes: where weights, mailboxes and threads are"
  [apiserver]="a real API server accepts the chart and the manifests, upgrades and Pod Security included"
  [kubelet]="the chart on a real node: kubelet, containerd, kube-proxy; faults, upgrades, pinning"
  [picker]="the Gateway API's endpoint picker among real coordinators"
  [device-code]="device code compiles with nvcc for every card"
)

# run_ctest PRESET [OPTION...]: runs ctest and then prints the skipped tests, which ctest only writes to its log if the others pass.
# The tests of a suite that differ in a parameter (All/Suite.Name/7) share a line.
run_ctest() {
  local status=0 log=build/$1/Testing/Temporary/LastTest.log launcher=()
  # TSan of gcc 12 cannot place its shadow memory under the address randomisation of newer kernels.
  [ "$1" != tsan ] || launcher=(setarch -R)
  rm -f "$log"
  "${launcher[@]}" ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$jobs" "${@:2}" |
    { grep --line-buffered -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )' || true; } || status=$?
  [ ! -f "$log" ] || awk '/^SKIPPED [^ ]+: / {
      name = substr($2, 1, length($2) - 1); reason = substr($0, length($1 $2) + 3)
      if (name ~ "/") { sub("/[^/]*$", "", name); sub("[.].*", "", name) }
      ++count[name ": " reason]
    }
    END { for (line in count) print "SKIPPED " line (count[line] > 1 ? " (" count[line] " tests)" : "") }' "$log" | sort
  return "$status"
}

part_tidy() {
  python3 tests/tidy/tidy.py
  tests/tidy/format.sh
  python3 tests/turns_test.py
}
part_build() {
  release
  python3 tests/tidy/hardening.py build/release
  python3 tests/tidy/preprocessed.py build/release/compile_commands.json
}
part_unit() { release; run_ctest release; }
part_e2e() { release; python3 tests/e2e/run.py --bin $bin; }
part_download() { python3 tests/deploy/download_test.py; }
part_page() { release; python3 tests/page/run.py --bin $bin; }
part_clients() { release; "${NUMOE_ORACLE_PYTHON:-python3}" tests/clients/run.py --bin $bin; }
part_quality() { release; python3 tests/quality/quality.py --format raw_int4 --slack 0.03; }
part_journeys() { release; python3 tests/journeys/run.py --bin $bin; }
part_chart() { release; tests/helm/run.sh; }
asan_tests() {
  LSAN_OPTIONS="suppressions='$PWD/tests/lsan_suppressions.txt':print_suppressions=0" run_ctest asan "$@"
}
part_asan() {
  build_preset asan boundary_tests
  asan_tests -L boundary -LE fuzz  # part_fuzz runs the fuzz targets with their corpus and with mutations that no earlier run had
}
part_fuzz() {
  build_preset asan boundary_tests
  tests/fuzz/run.sh build/asan/tests
}
part_tsan() {
  build_preset tsan threads_tests
  TSAN_OPTIONS="suppressions='$PWD/tests/tsan_suppressions.txt'" run_ctest tsan -L threads
}
part_analysis() {
  build_preset release numoe_proto
  tests/tidy/thread_safety.sh build/release
}
part_asan-compute() {
  build_preset asan all
  asan_tests -LE 'boundary|fuzz'
}
part_images() { release; tests/deploy/run.sh --bin $bin; }
part_packages() {
  release
  if ! install_packages <(cat deploy/package/packages.txt tests/deploy/package_tests.txt); then
    echo "SKIPPED some tests of packages: not installed: packages of tests/deploy/package_tests.txt" >&2
    [ "${NUMOE_REQUIRE:-}" != 1 ] || return 1
  fi
  python3 tests/deploy/packages.py --bin $bin
}
part_numa() {
  release
  if ! install_packages tests/numa/packages.txt; then
    echo "SKIPPED numa: not installed: packages of tests/numa/packages.txt" >&2
    [ "${NUMOE_REQUIRE:-}" != 1 ]
    return
  fi
  python3 tests/numa/run.py --bin $bin
}
part_apiserver() { tests/helm/run.sh --apiserver; }
part_kubelet() { release; tests/helm/run.sh --kubelet; }
part_picker() { release; tests/helm/run.sh --endpoint-picker; }
part_device-code() { tests/gpu/compile.sh; }

all_parts() { sed -e 's/#.*//' tests/parts.txt | awk 'NF {print $1}'; }
always_parts() { sed -e 's/#.*//' tests/parts.txt | awk '$3 == "always" {print $1}'; }

case ${1:-} in
  --*) [ $# -eq 1 ] || { echo "found '$2' after $1: expected nothing" >&2; exit 2; } ;;
esac
parts=() gate=""
case ${1:-} in
  "") mapfile -t parts < <(always_parts) ;;
  --all) mapfile -t parts < <(all_parts) ;;
  --gate)
    gate=1
    decisions=$(python3 tests/turns.py)
    echo "The parts that this run of the gate has, and those that it leaves to other commits:"
    awk -F'\t' '{printf "  %-4s  %-13s %s\n", $2 == "run" ? "run" : "-", $1, $3}' <<<"$decisions"
    mapfile -t parts < <(awk -F'\t' '$2 == "run" {print $1}' <<<"$decisions")
    ;;
  --list) for part in $(all_parts); do printf '%-13s %s\n' "$part" "${WHAT[$part]:?tests/run.sh does not know this part of tests/parts.txt}"; done; exit 0 ;;
  -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "unknown option '$1': expected --all, --gate, --list or names of parts" >&2; exit 2 ;;
  *)
    for part in "$@"; do
      [ -n "${WHAT[$part]:-}" ] || { echo "unknown part '$part': expected one of $(all_parts | xargs)" >&2; exit 2; }
    done
    parts=("$@")
    ;;
esac

# Prints a row for each part that has run, however the run ends; an interrupted run has failed.
rows=() left=() took="" current=packages finished=""
summary() {
  [ -n "$finished" ] || rows+=("$(printf '%-13s %5ss  FAILED' "$current" $((SECONDS - begin)))")
  printf '\n%-13s %6s\n' part time
  printf '%s\n' "${rows[@]}"
  echo "$SECONDS s in all, on $jobs cores"
  [ ${#left[@]} -eq 0 ] || printf 'LEFT OUT %s\n' "${left[@]}"
  if [ -z "$finished" ]; then echo "$current failed."
  elif [ ${#left[@]} -eq 0 ]; then echo "All parts passed."
  else echo "All parts that ran passed."; fi
}
begin=0
trap summary EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
install_packages deploy/packages.txt
rows+=("$(printf '%-13s %5ss' packages "$SECONDS")")
for current in "${parts[@]}"; do
  begin=$SECONDS
  if [ -n "$gate" ] && ! reason=$(python3 tests/turns.py --fits "$current" --after "$SECONDS" --took "$took"); then
    [ -n "$reason" ] || exit 1
    left+=("$current: $reason")
    printf '\n== %s: left out: %s\n' "$current" "$reason"
    continue
  fi
  printf '\n== %s: %s (at %s s)\n' "$current" "${WHAT[$current]}" "$SECONDS"
  "part_$current"
  rows+=("$(printf '%-13s %5ss' "$current" $((SECONDS - begin)))")
  took+="$current $((SECONDS - begin)),"
done
finished=1
