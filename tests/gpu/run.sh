#!/usr/bin/env bash
# Runs the device's tests on a machine with a GPU: every kernel test, then the trained model end to end with workers on
# this host, a worker killed under way. From a bundle (tests/gpu/bundle.sh) or from a tree that has been built there.
#   run.sh [--sanitize]    --sanitize: the kernel tests under compute-sanitizer's memcheck and racecheck
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -d "$here/tests" ]; then
  root=$here
  run() { "$root/lib/ld-linux-x86-64.so.2" --library-path "$root/lib:${LD_LIBRARY_PATH:-}:/usr/local/nvidia/lib64:/usr/local/cuda/lib64" "$@"; }
  tests=$root/tests bin=$root/bin model=$root/nano
else
  root=$(cd "$here/../.." && pwd)
  run() { "$@"; }
  tests=$root/build/cuda/tests_gpu bin=$root/build/cuda/bin model=$root/deploy/models/nano
fi
sanitizer=()
[ "${1:-}" = --sanitize ] && sanitizer=(compute-sanitizer --tool memcheck --error-exitcode 9)
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
lscpu | grep -E 'Model name|amx' | head -3 || true

failed=()
for test in "$tests"/*_gpu; do
  name=$(basename "$test")
  if (cd "$root" && run "${sanitizer[@]}" "$test" --gtest_brief=1); then echo "passed $name"; else failed+=("$name"); fi
done

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
start_worker() {
  run "$bin/numoe-expert-worker" --model "$model" --listen "unix:$work/w$1.sock" --worker-index "$1" --worker-count 2 \
    --metrics-port 0 >"$work/w$1.log" 2>&1 &
}
start_worker 0; first=$!
start_worker 1
run "$bin/numoe-coordinator" --model "$model" --workers "unix:$work/w0.sock,unix:$work/w1.sock" --device cuda \
  --num-gpu-experts 8 --port 0 --port-file "$work/port" >"$work/coordinator.log" 2>&1 &
for _ in $(seq 100); do [ -s "$work/port" ] && break; sleep 0.2; done
[ -s "$work/port" ] || { tail -5 "$work"/*.log >&2; exit 1; }
ask() {
  curl -s "http://127.0.0.1:$(cat "$work/port")/v1/chat/completions" -H 'content-type: application/json' \
    -d "{\"model\": \"nano\", \"temperature\": 0, \"messages\": [{\"role\": \"user\", \"content\": \"What is $1?\"}]}"
}
expect() {
  local answer
  answer=$(ask "$1")
  case $answer in *"$2"*) echo "passed: $1 is $2" ;; *) failed+=("$1"); echo "asked $1, expected $2: $answer" >&2 ;; esac
}
expect '84 * 3 / 2' 126
expect '12 + 30' 42
kill -9 "$first"; start_worker 0
expect '7 * 8' 56
curl -s "http://127.0.0.1:$(cat "$work/port")/metrics" | grep -E 'numoe_gpu_expert|numoe_steps_replayed' || true
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; tail -5 "$work/coordinator.log" >&2; exit 1; }
echo "all GPU tests passed"
