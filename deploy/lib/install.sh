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

# build_preset PRESET [TARGET...]: configures once and builds what changed; quiet unless it fails.
build_preset() {
  local preset=$1 log
  shift
  log=build/$preset.log
  mkdir -p build
  [ -f "build/$preset/build.ninja" ] || echo "configuring and building '$preset' (the first build takes some minutes)" >&2
  if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -- "$@"; } >"$log" 2>&1; then
    grep -E 'error|Error|FAILED' -A 5 "$log" | head -n 60 >&2
    echo "build of preset '$preset' failed; the whole log is in $log" >&2
    return 1
  fi
}
