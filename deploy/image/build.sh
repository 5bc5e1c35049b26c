#!/usr/bin/env bash
# Builds the image from programs that are built already, without a registry, on Debian 12 with buildah:
#   deploy/image/build.sh [--bin build/release/bin] [--tag localhost/numoe:VERSION] [--cuda DIR] [-- OPTIONS OF BUILDAH...]
# VERSION is the project's, with -cuda behind it for --cuda: the names that the chart and the pod of podman ask for.
# --cuda: the coordinator has the CUDA device; DIR is the toolkit that it was built with, /usr/local/cuda or nvidia/cu13 of
# NVIDIA's wheels.
# OPTIONS go before buildah's command (`--root DIR --runroot DIR`). rootfs.sh makes what the Dockerfile's stages before
# the last one would have made; the last stage is the Dockerfile's own.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=build/release/bin tag="" cuda=""
while [ $# -gt 0 ]; do
  case $1 in
    --bin | --tag | --cuda) [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; } ;;
    --) shift; break ;;
    *) echo "unknown option '$1': expected --bin, --tag, --cuda or --" >&2; exit 2 ;;
  esac
  case $1 in --bin) bin=$2 ;; --tag) tag=$2 ;; --cuda) cuda=$2 ;; esac
  shift 2
done

version=$(sed -n 's/^project(numoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$tag" ] || tag=localhost/numoe:$version${cuda:+-cuda}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# The same programs and packages give the same image: every time in it is the commit's.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
deploy/image/rootfs.sh --bin "$bin" --out "$scratch/rootfs" --version "$version" ${cuda:+--cuda "$cuda"}
# The stage alone: older buildahs would build those before it, which a context of the same name replaces.
{ echo "ARG VARIANT=cpu"; sed -n '/^FROM scratch AS image$/,$p' deploy/Dockerfile; } >"$scratch/Dockerfile"
buildah "$@" bud --quiet --isolation chroot --file "$scratch/Dockerfile" --build-context rootfs="$scratch" \
  --build-arg VARIANT="$([ -z "$cuda" ] && echo cpu || echo cuda)" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
  --build-arg CREATED="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" --timestamp "$SOURCE_DATE_EPOCH" --tag "$tag" "$scratch"
