#!/usr/bin/env bash
# Runs everything that needs a machine with a GPU: the device's tests, golden checkpoints and the trained model end to end
# with workers on that host, compute-sanitizer, and the benchmarks. Runs in a bundle (tests/gpu/bundle.sh), or in a tree
# that has been built there.
#   run.sh [--out DIR] [--seconds N] [STEP...]
# Steps, all of them by default. The cheapest are first, and so are those that explain failures of the others:
#   facts     the machine and the card                      driver    the driver behaviour that the device relies on
#   tests     every kernel's tests                          golden    the whole device against expected logits
#   nano      both daemons, one worker is killed            bench     numoe-gpu-bench, one part after another
#   sanitize  the kernels' tests under compute-sanitizer    amx       the CPU kernels' tests and numoe-kernel-bench
# Nothing hangs: every program has a time limit, every step ends within 10 minutes, all of them together within --seconds,
# and a check that fails or has no time left does not keep the others from running. If a call may take 10 minutes, four
# calls run everything: facts driver tests golden nano; bench; sanitize; amx. DIR (default: gpu_results) receives
# facts.txt, log.txt, summary.txt and results.jsonl, lines for tests/bench with machine, device and commit, each as soon as
# it is known. Exits with 1 if anything failed.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 2
out=gpu_results seconds=86400
while [[ ${1:-} == --* ]]; do
  case $1 in
    --out) out=$2 ;;
    --seconds) seconds=$2 ;;
    *) echo "run.sh: found $1, expected --out DIR or --seconds N" >&2; exit 2 ;;
  esac
  shift 2
done
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(facts driver tests golden nano bench sanitize amx)
mkdir -p "$out"
out=$(cd "$out" && pwd)
built=$root/build/cuda bin=$root/build/cuda/bin model=$root/deploy/models/nano
log=$out/log.txt summary=$out/summary.txt
NUMOE_COMMIT=$(cat "$built/commit" 2>/dev/null || git describe --always --dirty 2>/dev/null || echo unknown)
export NUMOE_COMMIT

# cuBLASLt comes from this machine: from CUDA's folders, or NVIDIA's Python wheels.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
for folder in /usr/local/nvidia/lib64 /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
  $(python3 -c 'import nvidia, os
for base in nvidia.__path__:
    for name, _, files in os.walk(base):
        if "libcublasLt.so.13" in files: print(name)' 2>/dev/null); do
  [ -d "$folder" ] && LD_LIBRARY_PATH+=${LD_LIBRARY_PATH:+:}$folder
done
export LD_LIBRARY_PATH
# Programs find the libraries in the bundle. If this machine's C library is older than the one they were built with, that
# of the bundle is used.
loader=()
if ! "$bin/numoe-expert-worker" --help >/dev/null 2>&1 && [ -d "$built/libc" ]; then
  loader=("$built/libc/ld-linux-x86-64.so.2" --library-path "$built/libc:$built/lib:$LD_LIBRARY_PATH")
fi

work=$(mktemp -d)
said=$work/said
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
step_seconds=540  # the longest time of a step
failed=()
say() { echo "$*" | tee -a "$summary"; }
# check SECONDS NAME COMMAND...: runs the command with a time limit and records how it ended.
check() {
  local limit=$1 name=$2 begin=$SECONDS how left=$((step_end - SECONDS))
  shift 2
  if [ $left -lt 5 ]; then
    failed+=("$name")
    say "FAILED $name: no time is left for it in this step"
    return
  fi
  [ "$limit" -le $left ] || limit=$left
  timeout -k 5 "$limit" "$@" >"$said" 2>&1
  local code=$?
  { echo "=== $name"; cat "$said"; } >>"$log"
  if [ $code -eq 0 ]; then
    say "passed $name ($((SECONDS - begin)) s)"
    return
  fi
  case $code in
    124 | 137) how="stopped after $limit s" ;;
    *) how="code $code" ;;
  esac
  failed+=("$name")
  say "FAILED $name: $how"
  tail -n 8 "$said" | cut -c1-300 | sed 's/^/    /'
}

# Prints the limits for pinned memory, shared memory and the hand-over between processes.
limits() {
  ulimit -a
  df -h /dev/shm /tmp
  grep -E 'MemTotal|MemAvailable|Shmem:|HugePages|Hugepagesize|Mlocked' /proc/meminfo
  head -n 3 /sys/kernel/mm/transparent_hugepage/{enabled,shmem_enabled} /sys/kernel/mm/hugepages/*/nr_hugepages
  head -n 2 /sys/fs/cgroup/{memory.max,memory.current,cpu.max,cpuset.cpus.effective}
  echo "CPUs of this shell: $(taskset -pc $$); as user $(id -u); $(sed -n 's/^Seccomp:/seccomp/p' /proc/self/status)"
  ls -l /dev/nvidia*
  for library in libcuda.so.1 libcublasLt.so.13; do
    echo "$library: $(ldconfig -p | awk -v name=$library '$1 == name {print $NF}' | head -n 1)"
  done
}

run_facts() {
  {
    date -u
    echo "commit $NUMOE_COMMIT"
    uname -a
    lscpu
    nvidia-smi
    nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,memory.free,clocks.max.sm,clocks.max.mem --format=csv
    nvidia-smi --query-gpu=pcie.link.gen.max,pcie.link.gen.current,pcie.link.width.max,pcie.link.width.current,display_active,compute_mode,mig.mode.current,ecc.mode.current --format=csv
    nvidia-smi topo -m
    nvcc --version || /usr/local/cuda/bin/nvcc --version
    echo "libraries: $LD_LIBRARY_PATH; loader: ${loader[*]:-that of this machine}"
    limits
  } >"$out/facts.txt" 2>&1
  grep -E 'Model name|^CPU\(s\)' "$out/facts.txt" | tee -a "$summary"
  say "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 || echo 'no nvidia-smi here')"
}

# Prints PROGRAM SOURCE for every file of tests: each is run separately, so that one that hangs does not hide the others.
sources_of() { "${loader[@]}" "$built/tests_gpu/$1" --list-sources | sed "s/^/$1 /"; }
kernel_tests() {
  for program in "$built"/tests_gpu/*_gpu; do
    [[ $program == *cuda_golden_tests_gpu ]] || sources_of "$(basename "$program")"
  done
}
# test_source SECONDS PROGRAM SOURCE [COMMAND...]: the tests of one source, under COMMAND if there is one.
test_source() {
  local limit=$1 program=$2 source=$3
  shift 3
  check "$limit" "${*:+$(basename "$1") $3 }${source%.cc}" "$@" "${loader[@]}" "$built/tests_gpu/$program" \
    --source="$source" --gtest_brief=1 </dev/null
}

run_tests() {
  local program source
  while read -r program source; do test_source 90 "$program" "$source"; done < <(kernel_tests)
}

run_golden() {
  local program source
  while read -r program source; do test_source 240 "$program" "$source"; done < <(sources_of cuda_golden_tests_gpu)
}

run_sanitize() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { say "skipped: there is no compute-sanitizer here"; return; }
  local tool program source
  for tool in memcheck racecheck synccheck; do
    while read -r program source; do
      [[ $source == gpu_bench_test.cc ]] && continue  # it forks, which compute-sanitizer does not follow
      test_source 90 "$program" "$source" "$sanitizer" --tool "$tool" --error-exitcode 9
    done < <(kernel_tests)
  done
}

# bench SECONDS NAME COMMAND...: lines of JSON that the command prints become results with machine and commit, even if it
# fails half way.
bench() {
  local limit=$1 name=$2 lines=$work/lines
  shift 2
  : >"$lines"
  check "$limit" "$name" bash -c 'lines=$1; shift; "$@" >"$lines"' bench "$lines" "${loader[@]}" "$@"
  grep '^{.*}$' "$lines" >"$lines.whole"
  cat "$lines.whole" >>"$log"
  python3 tests/bench/bench.py record "$out/results.jsonl" --runs 1 -- cat "$lines.whole" ||
    cat "$lines.whole" >>"$out/results.jsonl"
}

run_driver() {
  check 60 'driver' "${loader[@]}" "$bin/numoe-gpu-bench" driver --json
  grep -a '"op":"driver"' "$said" | tee -a "$out/driver.jsonl" | sed 's/^/    /' | cut -c1-200
}

# The shortest parts are first, so that a card that is slower than expected gives some results too.
run_bench() {
  for part in limits handover experts attention step hybrid overlap fetch; do
    bench 150 "bench $part" "$bin/numoe-gpu-bench" "$part" --json
  done
}

run_amx() {
  lscpu | grep -q amx_tile || { say "skipped: this CPU has no AMX"; return; }
  local source
  for source in $("${loader[@]}" "$built/tests/kernels_tests" --list-sources); do
    check 120 "${source%.cc}" "${loader[@]}" "$built/tests/kernels_tests" --source="$source" --gtest_brief=1
  done
  bench 60 "CPU limits" "$bin/numoe-kernel-bench" limits --json
  for isa in amx avx512; do
    bench 120 "CPU experts $isa" "$bin/numoe-kernel-bench" moe --shape k2 --experts 48 --tokens 1,8,64,512 --isa "$isa" --json
  done
}

# --- both daemons on the trained model
post() {  # URL JSON
  if command -v curl >/dev/null; then
    curl -s -m 60 "$1" -H 'content-type: application/json' -d "$2"
  else
    python3 -c 'import sys, urllib.request as u
print(u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode(), {"content-type": "application/json"}), timeout=60).read().decode())' "$1" "$2"
  fi
}
start_worker() {
  "${loader[@]}" "$bin/numoe-expert-worker" --model "$model" --listen "unix:$work/w$1.sock" --worker-index "$1" \
    --worker-count 2 --metrics-port 0 >>"$work/w$1.log" 2>&1 &
}
expect() {
  local answer
  answer=$(post "http://127.0.0.1:$(cat "$work/port")/v1/chat/completions" \
    "{\"model\": \"nano\", \"temperature\": 0, \"messages\": [{\"role\": \"user\", \"content\": \"What is $1?\"}]}")
  echo "asked $1: $answer" >>"$log"
  case $answer in *"$2"*) say "passed nano: $1 is $2" ;; *) failed+=("nano: $1"); say "FAILED nano: $1 is not $2: $answer" ;; esac
}
run_nano() {
  start_worker 0
  local first=$!
  start_worker 1
  "${loader[@]}" "$bin/numoe-coordinator" --model "$model" --workers "unix:$work/w0.sock,unix:$work/w1.sock" --device cuda \
    --num-gpu-experts 8 --port 0 --port-file "$work/port" >"$work/coordinator.log" 2>&1 &
  local coordinator=$!
  for _ in $(seq 300); do [ -s "$work/port" ] || ! kill -0 $coordinator 2>/dev/null && break; sleep 0.2; done
  if [ -s "$work/port" ]; then
    expect '84 * 3 / 2' 126
    expect '12 + 30' 42
    kill -9 "$first"
    start_worker 0
    expect '7 * 8' 56
    expect '12 + 30' 42
    python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())' \
      "http://127.0.0.1:$(cat "$work/port")/metrics" 2>/dev/null | grep -E 'numoe_gpu_expert|numoe_steps_replayed' >>"$log"
  else
    failed+=(nano)
    say "FAILED nano: the coordinator does not serve"
    tail -n 5 "$work"/*.log
  fi
  cat "$work"/*.log >>"$log"
  kill $(jobs -p) 2>/dev/null
  wait
}

for step in "${steps[@]}"; do
  declare -F "run_$step" >/dev/null ||
    { failed+=("$step"); say "FAILED $step: expected facts, driver, tests, golden, nano, bench, sanitize or amx"; continue; }
  say "--- $step ($SECONDS s)"
  step_end=$((SECONDS + step_seconds))
  [ $step_end -le "$seconds" ] || step_end=$seconds
  "run_$step"
done
[ ${#failed[@]} -eq 0 ] || { say "failed: ${failed[*]}"; exit 1; }
say "all steps passed: ${steps[*]}"
