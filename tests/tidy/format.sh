#!/usr/bin/env bash
# Checks the layout of all C++ files that git tracks with clang-format; --fix rewrites them. Without clang-format it says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v clang-format >/dev/null; then
  echo "format: skipped, no clang-format on this machine (apt-get install clang-format)" >&2
  exit 0
fi
mode=(--dry-run -Werror)
case ${1:-} in
  "") ;;
  --fix) mode=(-i) ;;
  *) echo "usage: format.sh [--fix]" >&2; exit 2 ;;
esac
git ls-files -z '*.cc' '*.h' '*.inc' '*.cu' '*.cuh' | xargs -0 clang-format "${mode[@]}"
