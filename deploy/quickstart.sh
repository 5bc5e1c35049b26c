#!/usr/bin/env bash
# Installs what is needed, builds, starts two expert workers and a coordinator, and serves the OpenAI API.
#   deploy/quickstart.sh                     serves on 127.0.0.1:8080 until Ctrl-C
#   deploy/quickstart.sh --ask "question"    the same, asks, prints the answer alone on stdout, exits 0
# Options: --model DIR (default: the model in the repository), --port N (default 8080; --ask takes any free one).
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/lib/install.sh

ask="" model=deploy/models/nano port=""
while [ $# -gt 0 ]; do
  case $1 in
    --ask | --model | --port)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      case $1 in --ask) ask=$2 ;; --model) model=$2 ;; --port) port=$2 ;; esac
      shift 2 ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) echo "unknown option '$1': expected --ask, --model, --port or --help" >&2; exit 2 ;;
  esac
done

install_packages deploy/packages.txt
build_preset release numoe-coordinator numoe-expert-worker numoe-chat
bin=build/release/bin
run=$(mktemp -d /tmp/numoe.XXXXXX)
pids=()
stop() {
  trap - EXIT INT TERM
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$run"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {  # what happened, then the end of each log
  echo "$1" >&2
  tail -n 5 "$run"/*.log >&2
  exit 1
}

echo "starting two expert workers and a coordinator with $model" >&2
# A free port is chosen by the kernel and read back from the coordinator's --port-file, so two runs never collide.
[ -n "$port" ] || { [ -n "$ask" ] && port=0 || port=8080; }
workers=()
for i in 0 1; do
  "$bin/numoe-expert-worker" --model "$model" --worker-index $i --worker-count 2 --local-workers 2 \
    --listen "unix:$run/worker$i.sock" --metrics-port 0 >"$run/worker$i.log" 2>&1 &
  pids+=($!)
  workers+=("unix:$run/worker$i.sock")
done
"$bin/numoe-coordinator" --model "$model" --workers "$(IFS=,; echo "${workers[*]}")" --port "$port" \
  --port-file "$run/port" >"$run/coordinator.log" 2>&1 &
pids+=($!)

for _ in $(seq 600); do
  for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || fail "a daemon stopped while starting"; done
  if [ -s "$run/port" ] && curl --noproxy '*' -sf -o /dev/null "http://127.0.0.1:$(cat "$run/port")/health"; then ready=1; break; fi
  sleep 0.1
done
[ -n "${ready:-}" ] || fail "the coordinator was not ready after 60 s"
url=http://127.0.0.1:$(cat "$run/port")

if [ -n "$ask" ]; then
  body=$(python3 -c 'import json, sys
print(json.dumps({"messages": [{"role": "user", "content": sys.argv[1]}], "temperature": 0, "max_tokens": 1024}))' "$ask")
  reply=$(curl --noproxy '*' -sf "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$body") || fail "the request failed"
  python3 -c 'import json, sys
print(json.load(sys.stdin)["choices"][0]["message"]["content"])' <<<"$reply"
  exit 0
fi

cat <<TXT
NUMoE serves $model at $url   (two expert workers, logs in $run)

  open $url in a browser, or
  curl $url/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}'
  $bin/numoe-chat --url $url

Ctrl-C stops everything.
TXT
wait -n "${pids[@]}" || true
fail "a daemon stopped"
