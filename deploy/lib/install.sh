# Sourced by quickstart.sh and tests/run.sh: installs the distribution packages that are missing, once.

# install_packages FILE: every package named in FILE (one a line, # comments). Nothing is done when all are there.
install_packages() {
  local missing=() package
  while read -r package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$1")
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing ${#missing[@]} packages: ${missing[*]}" >&2
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages, and neither root nor sudo: apt-get install ${missing[*]}" >&2; return 1; }
    sudo=(sudo)
  fi
  # apt prints a screenful; it is kept and shown only when it fails.
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update && DEBIAN_FRONTEND=noninteractive \
         "${sudo[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "apt-get failed; the whole log is in $log" >&2
    return 1
  fi
  rm -f "$log"
}

# show_progress NAME: reads a build's output, keeps quiet about everything but how far it is. On a terminal that is one line
# that moves, elsewhere a line every 20 seconds.
show_progress() {
  local name=$1 line done_steps="" all_steps="" begin=$SECONDS shown=$SECONDS status left moving=""
  [ ! -t 2 ] || moving=1
  while true; do
    status=0
    IFS= read -r -t 5 line || status=$?
    [ $status -eq 0 ] || [ $status -gt 128 ] || break  # above 128: nothing came for 5 seconds
    if [[ $status -eq 0 && $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      done_steps=${BASH_REMATCH[1]} all_steps=${BASH_REMATCH[2]}
    fi
    [ -n "$done_steps" ] || continue
    [ -n "$moving" ] || [ $((SECONDS - shown)) -ge 20 ] || continue
    shown=$SECONDS
    left=""
    [ "$done_steps" -lt 10 ] || left=", about $(((SECONDS - begin) * (all_steps - done_steps) / done_steps)) s left"
    if [ -n "$moving" ]; then
      printf '\r\033[Kbuilding %s: %d of %d steps, %d s%s' "$name" "$done_steps" "$all_steps" $((SECONDS - begin)) "$left" >&2
    else
      printf 'building %s: %d of %d steps, %d s%s\n' "$name" "$done_steps" "$all_steps" $((SECONDS - begin)) "$left" >&2
    fi
  done
  [ -z "$moving" ] || printf '\r\033[K' >&2
}

# build_preset PRESET [TARGET...]: configures once and builds what changed. Says how far it is; when it fails, what the
# compiler said of the error and no more.
build_preset() {
  local preset=$1 log status
  shift
  log=build/$preset.log
  mkdir -p build
  if [ ! -f "build/$preset/build.ninja" ]; then
    echo "configuring the build '$preset'" >&2
  fi
  status=0
  cmake --preset "$preset" >"$log" 2>&1 || status=$?
  if [ $status -eq 0 ]; then
    { NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" -- "$@" 2>&1 || echo "build failed"; } |
      tee -a "$log" | show_progress "$preset"
    [ "$(tail -n 1 "$log")" != "build failed" ] || status=1
  fi
  if [ $status -ne 0 ]; then
    grep -E 'error|Error|FAILED' -A 5 "$log" | head -n 60 >&2
    echo "The build '$preset' failed; the whole log is in $log." >&2
    return 1
  fi
}
