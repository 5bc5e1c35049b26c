#!/usr/bin/env bash
# Installs packages, builds the programs, starts an expert worker for each NUMA node and a coordinator, and serves the OpenAI API.
#   deploy/quickstart.sh                     serves on 127.0.0.1:8080 until Ctrl-C
#   deploy/quickstart.sh --ask "question"    starts in the same way, asks, prints only the answer on stdout, and exits with 0
# Options:
#   --model X       the model to serve (default: the one in this repository): a folder, a .gguf file, or ORG/NAME of a repository that
#                   is in Hugging Face's cache on this machine
#   --download      first downloads the repository that --model names into ~/.cache/numoe, or the files of it that are missing
#   --include GLOB  with --download: only files that match, for a repository with a GGUF file for each format: '*Q4_K_M*'
#   --port N        port of the API (default: 8080; with --ask any free port)
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."
source deploy/lib/install.sh

ask="" model=deploy/models/nano port="" download="" include=()
while [ $# -gt 0 ]; do
  case $1 in
    --ask | --model | --port | --include)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      case $1 in
        --ask) ask=$2 ;;
        --model) if [[ $2 != /* && -e $from/$2 ]]; then model=$from/$2; else model=$2; fi ;;
        --port) port=$2 ;;
        --include) include=(--include "$2") ;;
      esac
      shift 2 ;;
    --download) download=1; shift ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option '$1': expected --ask, --model, --download, --include, --port or --help" >&2; exit 2 ;;
  esac
done

if [ -n "$download" ]; then
  [[ $model =~ ^[A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9._-]+$ ]] || { echo "--download with --model $model: expected ORG/NAME, the name of a repository" >&2; exit 2; }
  # Each pattern has a folder of its own, because a download removes files that it does not want from its folder.
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/numoe/${model/\//--}$(printf '%s' "${include[1]:+--${include[1]}}" | tr -c 'A-Za-z0-9._-' _)
elif [ ${#include[@]} -gt 0 ]; then
  echo "--include is for --download: add --download, or leave --include out" >&2
  exit 2
fi

install_packages deploy/packages.txt
if [ -n "$download" ]; then
  deploy/download/numoe-download --repo "$model" --to "$folder" "${include[@]}"
  model=$folder
fi
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

fail() {  # MESSAGE: prints it and the last lines of each log, and ends
  show ""
  echo "$1" >&2
  tail -n 5 "$run"/*.log >&2
  exit 1
}
# show LINE: prints a line of progress; on a terminal it replaces the line before. An empty LINE removes it there.
shown=""
show() {
  [ "$1" != "$shown" ] || return 0
  if [ -t 2 ]; then printf '\r\033[K%s' "${1:0:79}" >&2; elif [ -n "$1" ]; then echo "$1" >&2; fi
  shown=$1
}
# Prints the last line of the logs that says how much has been loaded, without its date.
progress() { grep -hE 'loading experts: |allocated pages |waiting for worker ' "$run"/*.log 2>/dev/null | tail -n 1 | sed 's/^\(\[[^]]*\] \)*//' || true; }

echo "starting one expert worker for each NUMA node, and a coordinator, with $model" >&2
logging=(--log-level info --log-format text)  # overrides the environment, because this script reads the lines
"$bin/numoe-expert-worker" --supervise --model "$model" --listen "unix:$run" --metrics-port 0 "${logging[@]}" >"$run/workers.log" 2>&1 &
pids+=($!)
# The supervisor's first lines name the workers that it starts, and their addresses.
workers=""
while [ -z "$workers" ]; do
  kill -0 "${pids[0]}" 2>/dev/null || fail "the expert workers did not start"
  workers=$(sed -n '/ supervising /{s/; worker [0-9]* at \([^ ]*\) on/\n\1\n/g;p;q}' "$run/workers.log" | grep '^unix:' | paste -sd, || true)
  [ -n "$workers" ] || sleep 0.05
done
# The kernel chooses a free port, and this script reads it from the coordinator's --port-file, so two runs never use the same one.
[ -n "$port" ] || { [ -n "$ask" ] && port=0 || port=8080; }
"$bin/numoe-coordinator" --model "$model" --workers "$workers" --port "$port" --port-file "$run/port" "${logging[@]}" >"$run/coordinator.log" 2>&1 &
pids+=($!)

# Large models take minutes. The coordinator ends by itself if loading makes no progress any more.
until [ -s "$run/port" ] && curl --noproxy '*' -sf -o /dev/null "http://127.0.0.1:$(cat "$run/port")/health"; do
  for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || fail "a daemon stopped while starting"; done
  show "$(progress)"
  sleep 0.1
done
show ""
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
NUMoE serves $model at $url   (logs in $run)

  open $url in a browser, or
  curl $url/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}'
  $bin/numoe-chat --url $url

Ctrl-C stops everything.
TXT
wait -n "${pids[@]}" || true
fail "a daemon stopped"
