#!/usr/bin/env bash
# Checks the layout of all C++ sources that tidy.py knows with Debian 12's clang-format; --fix rewrites them. Without version 14 it
# prints "SKIPPED", because other versions lay out some lines differently; with NUMOE_REQUIRE=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! clang-format --version 2>/dev/null | grep -q ' version 14\.'; then
  echo "SKIPPED layout: there is no clang-format 14 on this machine (apt-get install clang-format)" >&2
  [ "${NUMOE_REQUIRE:-}" != 1 ]
  exit
fi
mode=(--dry-run -Werror)
case ${1:-} in
  "") ;;
  --fix) mode=(-i) ;;
  *) echo "usage: format.sh [--fix]" >&2; exit 2 ;;
esac
python3 tests/tidy/tidy.py --files | xargs -d '\n' -r clang-format "${mode[@]}"
