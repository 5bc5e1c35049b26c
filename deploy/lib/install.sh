# Sourced by quickstart.sh and tests/run.sh, which set pipefail: installs the distribution packages that are missing, and
# builds.

# install_packages FILE: every package named in FILE (one a line, # comments). Nothing is done when all are there, and nothing
# that is there is removed for one.
install_packages() {
  local missing=() package
  if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here to install packages with. $1 names Debian 12's; yours may have other names." >&2
    return 0  # CMake says what is missing
  fi
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
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
  if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-remove --no-install-recommends "${missing[@]}"; } </dev/null >"$log" 2>&1; then
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

# build_jobs: how many compilers may run at once. One takes up to 2 GB, which a desktop with many cores does not have for
# each. CMAKE_BUILD_PARALLEL_LEVEL decides where it is set.
build_jobs() {
  local by_cores by_memory
  by_cores=$(($(nproc) + 1))  # while one reads, another computes
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 2097152)}' /proc/meminfo)
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo "${CMAKE_BUILD_PARALLEL_LEVEL:-$((by_cores < by_memory ? by_cores : by_memory))}"
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
    NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" --parallel "$(build_jobs)" -- "$@" 2>&1 |
      tee -a "$log" | show_progress "$preset" || status=1
  fi
  if [ $status -ne 0 ]; then
    # Awk reads to the end, because a closed pipe would end this script before its last line.
    awk '/error|Error|FAILED/ {show = 6} show-- > 0 && shown++ < 60' "$log" >&2
    grep -qE 'error|Error|FAILED' "$log" || tail -n 30 "$log" >&2
    echo "The build '$preset' failed; the whole log is in $log." >&2
    return 1
  fi
}
