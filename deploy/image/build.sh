#!/usr/bin/env bash
# Builds the image, tags it with the name that the chart and the pod of podman ask for, and gives it to what runs containers:
#   deploy/image/build.sh [--load WHERE]... [--bin build/release/bin] [--tag localhost/numoe:VERSION] [--cuda DIR] [-- OPTIONS OF BUILDAH...]
# --load: podman, docker, kind, kind:CLUSTER, minikube, k3s, or a file NAME.tar (for docker load, ctr images import and others); may be
#   given several times. Without it the image is in the storage of buildah, which podman shares.
# --bin: the folder of programs that are built already. Without it deploy/lib/install.sh builds them first.
# --tag: another name. VERSION is the number of CMakeLists.txt, followed by -cuda with --cuda.
# --cuda: the coordinator has the CUDA device; DIR is the toolkit that it was built with, /usr/local/cuda or nvidia/cu13 of
#   NVIDIA's wheels. Needs --bin build/cuda/bin.
# OPTIONS are put before buildah's command (`--root DIR --runroot DIR`).
# On Debian 12 with buildah no registry is needed: rootfs.sh makes what the Dockerfile's stages before the last one would have made,
# and the last stage is the Dockerfile's own. Elsewhere docker or podman build the whole Dockerfile, which needs a registry.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/../.."
# Relative paths begin at the folder that this script was called in.
at_caller() { case $1 in /*) echo "${1%/}" ;; *) echo "$caller/${1%/}" ;; esac; }
source deploy/lib/install.sh

bin="" tag="" cuda="" loads=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --bin | --tag | --cuda | --load) [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; } ;;
    --) shift; break ;;
    *) echo "unknown option '$1': expected --load, --bin, --tag, --cuda or --" >&2; exit 2 ;;
  esac
  case $1 in
    --bin) bin=$(at_caller "$2") ;;
    --tag) tag=$2 ;;
    --cuda) cuda=$(at_caller "$2") ;;
    --load) case $2 in *.tar) loads+=("$(at_caller "$2")") ;; *) loads+=("$2") ;; esac ;;
  esac
  shift 2
done
for where in "${loads[@]}"; do
  case $where in
    podman | docker | minikube | k3s | kind) tool=$where ;;
    kind:?*) tool=kind ;;
    *.tar) tool="" ;;
    *) echo "--load $where: expected podman, docker, kind, kind:CLUSTER, minikube, k3s or NAME.tar" >&2; exit 2 ;;
  esac
  [ -z "$tool" ] || command -v "$tool" >/dev/null || { echo "--load $where: there is no program '$tool' in PATH" >&2; exit 1; }
done
[ -z "$cuda" ] || [ -n "$bin" ] || { echo "--cuda needs --bin with programs that were built with that toolkit (build/cuda/bin)" >&2; exit 2; }

version=$(sed -n 's/^project(numoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$tag" ] || tag=localhost/numoe:$version${cuda:+-cuda}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# The same programs and packages give the same image: every time in it is the time of the commit.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
arguments=(--build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg CREATED="$created")

is_debian_12() { [ "$(. /etc/os-release && echo "${ID:-}${VERSION_ID:-}")" = debian12 ]; }

build_with_buildah() {
  if [ -z "$bin" ]; then
    install_packages deploy/packages.txt
    build_preset release numoe_programs
    bin=build/release/bin
  fi
  deploy/image/rootfs.sh --bin "$bin" --out "$scratch/rootfs" --version "$version" ${cuda:+--cuda "$cuda"}
  # The stage alone: older buildahs would build those before it, which a context of the same name replaces.
  { echo "ARG VARIANT=cpu"; sed -n '/^FROM scratch AS image$/,$p' deploy/Dockerfile; } >"$scratch/Dockerfile"
  buildah "$@" bud --quiet --isolation chroot --file "$scratch/Dockerfile" --build-context rootfs="$scratch" \
    --build-arg VARIANT="$([ -z "$cuda" ] && echo cpu || echo cuda)" "${arguments[@]}" --timestamp "$SOURCE_DATE_EPOCH" \
    --tag "$tag" "$scratch"
}

# archive BUILDER...: the image as a file, once.
archive() {
  [ -f "$scratch/image.tar" ] && return
  if [ "$1" = buildah ]; then
    "$@" push --quiet "$tag" "docker-archive:$scratch/image.tar:$tag"
  else
    "$1" save --output "$scratch/image.tar" "$tag"
  fi
}

load() {  # WHERE BUILDER...
  local where=$1
  shift
  case $where in
    podman) [ "$1" = podman ] || { archive "$@"; podman load --quiet --input "$scratch/image.tar"; } ;;
    docker) [ "$1" = docker ] || { archive "$@"; docker load --input "$scratch/image.tar"; } ;;
    kind) archive "$@"; kind load image-archive "$scratch/image.tar" ;;
    kind:*) archive "$@"; kind load image-archive "$scratch/image.tar" --name "${where#kind:}" ;;
    minikube) archive "$@"; minikube image load "$scratch/image.tar" ;;
    k3s) archive "$@"; k3s ctr images import "$scratch/image.tar" ;;
    *.tar) archive "$@"; cp "$scratch/image.tar" "$where" ;;
  esac
  echo "$tag is in $where" >&2
}

if is_debian_12 && command -v buildah >/dev/null; then
  build_with_buildah "$@"
  builder=(buildah "$@")
elif [ -z "$bin" ] && builder=("$(command -v docker || command -v podman)"); then
  builder=("${builder[0]##*/}")
  "${builder[0]}" build --file deploy/Dockerfile "${arguments[@]}" --tag "$tag" .
else
  echo "expected buildah on Debian 12 (apt-get install buildah), or docker or podman (without --bin and --cuda)" >&2
  exit 1
fi
for where in "${loads[@]}"; do load "$where" "${builder[@]}"; done
