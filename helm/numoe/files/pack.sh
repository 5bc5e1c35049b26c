#!/bin/sh
# Packs the experts once: pack.sh MODEL OUT FORMAT SLICE WORKERS. OUT/READY says that it is complete; it goes before anything
# is packed, or workers would start beside what a new release packs again.
set -eu
rm -f "$2/READY"
numoe-pack convert "$1" --out "$2" --format "$3" --slice "$4" --workers "$5"
: >"$2/READY"
