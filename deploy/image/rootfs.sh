#!/usr/bin/env bash
# Makes the image's root file system: the programs, only the Debian packages that they need, a user, and an SBOM.
#   deploy/image/rootfs.sh --bin DIR --out DIR [--version TEXT] [--cuda DIR]
# --cuda names the CUDA toolkit that the coordinator was built with; its CUDA device loads one library of it.
# The Dockerfile runs this script in its last build stage, build.sh runs it on this machine, with the same list of packages and the
# same result. It needs Debian 12 with apt's lists and python3, and no root. Packages are unpacked, not installed: none of their
# scripts run, and dpkg, apt and perl are not in the image. /var/lib/dpkg/status.d has the control file of each package, where
# scanners expect it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

bin="" out="" version=unknown cuda=""
while [ $# -gt 0 ]; do
  case $1 in
    --bin | --out | --version | --cuda) [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; } ;;
    *) echo "unknown option '$1': expected --bin, --out, --version or --cuda" >&2; exit 2 ;;
  esac
  case $1 in --bin) bin=$2 ;; --out) out=$2 ;; --version) version=$2 ;; --cuda) cuda=$2 ;; esac
  shift 2
done
[ -n "$bin" ] && [ -n "$out" ] || { echo "expected --bin DIR --out DIR" >&2; exit 2; }

daemons=(numoe-coordinator numoe-expert-worker)
tools=(numoe-router numoe-pack numoe-chat numoe-bench)  # included if they were built
scripts=("$here/../download/numoe-download")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# These packages of apt's answer are left out, because nothing is installed or removed in an image.
never_unpacked=" debconf dpkg "

programs() {
  local name
  for name in "${daemons[@]}"; do
    [ -x "$bin/$name" ] || { echo "$bin/$name: missing; build it first" >&2; return 1; }
    echo "$bin/$name"
  done
  for name in "${tools[@]}"; do
    if [ -x "$bin/$name" ]; then echo "$bin/$name"; fi
  done
  for name in "${scripts[@]}"; do
    if [ -x "$name" ]; then echo "$name"; fi
  done
}

# Prints the packages of the shared libraries that the programs load; scripts load none.
library_packages() {
  local library
  for library in $({ ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u); do
    library=$(realpath "$library")
    # Since Debian merged /lib into /usr/lib, a package may have registered its files under either path.
    { dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "${library#/usr}"; } | cut -d: -f1
  done | sort -u
}

download() {
  mkdir -p "$scratch/archives/partial"
  : >"$scratch/status"  # pretends that nothing is installed, so that apt's answer names every package that is needed
  apt-get -qq -o Dir::State::status="$scratch/status" -o Dir::Cache::archives="$scratch/archives" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1 -o APT::Sandbox::User=root \
    install -y --no-install-recommends --download-only "$@" >"$scratch/apt.log" 2>&1 ||
    { tail -n 20 "$scratch/apt.log" >&2; echo "apt-get cannot fetch the packages; are its lists current (apt-get update)?" >&2; return 1; }
}

unpack() {
  local deb name
  for link in bin sbin lib lib64; do
    mkdir -p "$out/usr/$link"
    ln -s "usr/$link" "$out/$link"
  done
  mkdir -p "$out/var/lib/dpkg/status.d"
  for deb in "$scratch"/archives/*.deb; do
    name=$(dpkg-deb -f "$deb" Package)
    case $never_unpacked in *" $name "*) continue ;; esac
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink --no-same-owner -C "$out" \
      --exclude './usr/share/man' --exclude './usr/share/info' --exclude './usr/share/locale' --exclude './usr/share/lintian' \
      --exclude './usr/share/bash-completion' --exclude './usr/share/doc/*/[!c]*' --exclude './usr/lib/x86_64-linux-gnu/gconv'
    { dpkg-deb -f "$deb"; echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"; } >"$out/var/lib/dpkg/status.d/$name"
  done
}

# Does what the packages' own scripts would have done, and adds the user.
configure() {
  find "$out" -xdev -type f -perm /6000 -exec chmod ug-s {} +  # no program of the image may give another user's rights
  mkdir -p "$out/etc/ssl/certs" "$out/models" "$out/usr/share/numoe"
  cat "$out"/usr/share/ca-certificates/mozilla/*.crt >"$out/etc/ssl/certs/ca-certificates.crt"
  ln -sf bash "$out/usr/bin/sh"
  ln -sf mawk "$out/usr/bin/awk"
  mkdir -p -m 1777 "$out/tmp"
  printf 'root:x:0:0:root:/:/usr/sbin/nologin\nnumoe:x:10001:10001:NUMoE:/tmp:/usr/sbin/nologin\n' >"$out/etc/passwd"
  printf 'root:x:0:\nnumoe:x:10001:\n' >"$out/etc/group"
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$out/etc/nsswitch.conf"
}

# Copies cuBLASLt, which the coordinator loads if there is a GPU. It needs no other library of CUDA: CUDA's runtime is linked into the
# coordinator, and the driver's libraries come from the host. NVIDIA publishes one file for all its GPUs, which cannot be made smaller.
install_cuda() {
  local library licence
  library=$(find -L "$cuda/lib64" "$cuda/lib" -maxdepth 1 -name 'libcublasLt.so.13' -print -quit 2>/dev/null || true)
  licence=$(find -L "$cuda/EULA.txt" "$cuda"/../../nvidia_cublas-*.dist-info -name EULA.txt -o -name License.txt 2>/dev/null | head -n 1 || true)
  [ -n "$library" ] && [ -n "$licence" ] || {
    echo "--cuda $cuda: expected a toolkit of CUDA 13, with lib/libcublasLt.so.13 and EULA.txt, or NVIDIA's wheels' nvidia/cu13" >&2
    return 1
  }
  install -m 0644 "$library" "$out/usr/lib/x86_64-linux-gnu/"
  install -D -m 0644 "$licence" "$out/usr/share/doc/nvidia-cuda/copyright"
}

# Fails if a program or cuBLASLt needs a library that is not in the image, also if this machine has that library.
check_libraries() {
  local program where=$out/usr/lib/x86_64-linux-gnu missing
  for program in "$out"/usr/bin/numoe-* "$where"/libcublasLt.so.*; do
    [ -e "$program" ] || continue
    [ "$(head -c 4 "$program" | tail -c 3)" = ELF ] || continue
    missing=$("$out/lib64/ld-linux-x86-64.so.2" --inhibit-cache --library-path "$where" --list "$program" |
      awk -v root="$(realpath "$out")/" '$2 == "=>" && index($3, root) != 1')
    [ -z "$missing" ] || { printf '%s needs libraries that are not in the image:\n%s\n' "${program##*/}" "$missing" >&2; return 1; }
  done
}

mapfile -t files < <(programs)
[ ${#files[@]} -ge ${#daemons[@]} ] || exit 1
mapfile -t packages < <(library_packages "${files[@]}"; sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$here/packages.txt")
download "${packages[@]}"
rm -rf "$out"
mkdir -p "$out"
out=$(realpath "$out")
unpack
configure
install -m 0755 "${files[@]}" "$out/usr/bin/"
for file in "$out"/usr/bin/numoe-*; do
  if [ "$(head -c 4 "$file" | tail -c 3)" = ELF ]; then strip --strip-unneeded "$file"; fi
done
# The small trained model, which helm/numoe/values-nano.yaml serves.
mkdir -p "$out/usr/share/numoe/models"
cp -r "$here/../models/nano" "$out/usr/share/numoe/models/nano"
[ -z "$cuda" ] || install_cuda
check_libraries
python3 "$here/sbom.py" --root "$out" --version "$version" ${cuda:+--cuda "$cuda"} >"$out/usr/share/numoe/sbom.spdx.json"
