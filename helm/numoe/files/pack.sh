#!/bin/sh
# Packs the experts once: pack.sh MODEL OUT FORMAT SLICE WORKERS. The file OUT/READY marks the result as complete. It is removed
# before packing begins, so that no worker starts with files that a new release is packing again.
set -eu
rm -f "$2/READY"
numoe-pack convert "$1" --out "$2" --format "$3" --slice "$4" --workers "$5"
: >"$2/READY"
