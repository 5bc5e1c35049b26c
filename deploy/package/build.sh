#!/usr/bin/env bash
# Builds NUMoE's packages from the sources: a .deb for Debian 12, and a .tar.zst for other distributions of x86-64.
#   deploy/package/build.sh [--bin build/release] [--out build/packages]
# --bin: a build folder whose programs are built already. Without it the release build is made first; with
# `--bin build/cuda` the package is numoe-cuda, whose coordinator has the CUDA device. What is in the packages says
# common/cmake/NumoePackages.cmake; README.md beside this file says how to install them.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/../.."
# Relative paths begin at the folder that this script was called in.
at_caller() { case $1 in /*) echo "${1%/}" ;; *) echo "$caller/${1%/}" ;; esac; }
source deploy/lib/install.sh

build="" out=build/packages
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --bin | --out) [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; } ;;
    *) echo "unknown option '$1': expected --bin or --out" >&2; exit 2 ;;
  esac
  case $1 in --bin) build=$(at_caller "$2") build=${build%/bin} ;; --out) out=$(at_caller "$2") ;; esac
  shift 2
done
install_packages deploy/package/packages.txt
if [ -z "$build" ]; then
  install_packages deploy/packages.txt
  build_preset release numoe_programs
  build=build/release
fi
[ -f "$build/CPackConfig.cmake" ] || { echo "$build: expected a build folder of NUMoE, which has CPackConfig.cmake" >&2; exit 1; }
# The same programs give the same packages: every time in them is the time of the commit.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
mkdir -p "$out"
out=$(realpath "$out")
rm -rf "$out"/_CPack_Packages
log=$(mktemp)
cpack --config "$build/CPackConfig.cmake" -G "DEB;TZST" -B "$out" >"$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }
rm -rf "$out"/_CPack_Packages "$log"
ls -1 "$out"/*.deb "$out"/*.tar.zst
