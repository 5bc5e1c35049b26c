#!/bin/sh
# Starts a daemon of the pod: start.sh PROGRAM ARGUMENTS...
# WAIT_FOR and WAIT_FOR_PACKED name files that exist once the model is complete. The script waits for them and prints the progress
# every 15 s (WAIT_MIB is the final size of WAIT_FOR's directory). INDEX_BASE and INDEX_STEP give the number of the slice by the
# number at the end of the pod's name: pod 1 has slice INDEX_BASE, pod 2 INDEX_BASE + INDEX_STEP. (Pod 0 of a
# LeaderWorkerSet's group is its leader.)
set -eu
# Without these traps the shell, which is process 1, would ignore the signals.
trap 'exit 143' TERM
trap 'exit 130' INT

pause() {
  sleep "$1" &
  wait $!
}

mib() {
  kib=$(du -sk "$1" 2>/dev/null | cut -f1) || true
  echo $((${kib:-0} / 1024))
}

progress() { # directory, final size in MiB, size in MiB at the last call, seconds since then
  now=$(mib "$1")
  rate=$(((now - $3) / $4))
  line="waiting for $1: $now of $2 MiB"
  [ "$2" -le 0 ] || line="$line ($((now < $2 ? now * 100 / $2 : 99)) %)"
  [ "$rate" -le 0 ] || line="$line, $rate MiB/s"
  if [ "$rate" -gt 0 ] && [ "$2" -gt "$now" ]; then line="$line, about $((($2 - now) / rate)) s left"; fi
  echo "$line"
}

await() { # file, final size of its directory in MiB
  before=$(mib "$(dirname "$1")")
  until [ -e "$1" ]; do
    pause "${WAIT_SECONDS:-15}"
    progress "$(dirname "$1")" "$2" "$before" "${WAIT_SECONDS:-15}"
    before=$now
  done
  echo "$1 exists now"
}

[ -z "${WAIT_FOR:-}" ] || await "$WAIT_FOR" "${WAIT_MIB:-0}"
[ -z "${WAIT_FOR_PACKED:-}" ] || await "$WAIT_FOR_PACKED" 0
if [ -n "${INDEX_BASE:-}" ]; then
  pod=${HOSTNAME:-$(cat /etc/hostname)}
  set -- "$@" "--worker-index=$((INDEX_BASE + INDEX_STEP * (${pod##*-} - 1)))"
fi
exec "$@"
