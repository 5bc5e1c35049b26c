#!/usr/bin/env bash
# Runs every fuzz target with its corpus and mutations that no earlier run had: the targets chosen by the commit for a minute,
# the others for a twelfth of that time.
#   tests/fuzz/run.sh BIN [--seconds 60] [--share 3]     BIN is the folder of the NAME_replay programs (build/asan/tests)
# --share N: every N-th target is chosen, so that each is chosen in one of N commits, on average; with 1 all are chosen.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
bin=$1 seconds=60 share=3
shift
while [ $# -ge 2 ]; do
  case $1 in
    --seconds) seconds=$2 ;;
    --share) share=$2 ;;
    *) break ;;
  esac
  shift 2
done
[ $# -eq 0 ] || { echo "unknown option '$1': expected --seconds N or --share N" >&2; exit 2; }

commit=$(git rev-parse HEAD 2>/dev/null || date +%s | sha1sum)
number=$((16#${commit:0:12}))
targets=()
place=0
for source in tests/fuzz/*_fuzz.cc; do
  name=$(basename "$source" .cc)
  if [ $(((place++ + number) % share)) -eq 0 ]; then targets+=("$name $seconds"); else targets+=("$name $(((seconds + 11) / 12))"); fi
done

one() {
  name=$1 seconds=$2
  if said=$("$bin/${name}_replay" "tests/fuzz/corpus/$name" --seconds="$seconds" --first="$first" 2>&1); then
    echo "$name: $said"
  else
    printf '%s FAILED\n%s\n' "$name" "$(tail -n 40 <<<"$said")"
    return 1
  fi
}
export -f one
export bin first=$((number % 1000000000 * 1000))
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'one {}'
