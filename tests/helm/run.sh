#!/usr/bin/env bash
# Tests the chart and the manifests that are rendered from it. Installs python3-yaml, builds helm and kubectl-validate with Go.
#   tests/helm/run.sh               lint, templates, refusals, scripts, handbook, real daemons, manifests, schemas of three Kubernetes versions
#   tests/helm/run.sh --apiserver   only: a real kube-apiserver with controllers and kwok accepts everything (builds them; needs etcd)
#   tests/helm/run.sh --kubelet     only: the chart on a real node, in namespaces of its own (needs root; builds a kubelet)
#   tests/helm/run.sh --endpoint-picker   only: the Gateway API's endpoint picker chooses among real coordinators (builds both)
# Options: --bin DIR is the folder of this tree's programs, whose --help must know every flag and which the node runs (default
# build/release/bin). Arguments after `--` name tests of --kubelet.
# Programs that HELM, KUBECTL_VALIDATE, CLUSTER, KWOK, NODE and PAUSE name are not built. A test whose program is not available is
# reported and skipped; with NUMOE_REQUIRE=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/lib/install.sh

HELM_VERSION=v3.21.4 VALIDATE_VERSION=v0.0.4 KWOK_VERSION=v0.8.0
SCHEMA_VERSIONS="v1.34.4 v1.36.3"
# The modules of operators, each with the folder of its CustomResourceDefinitions.
CRD_MODULES="github.com/kedacore/keda/v2@v2.21.0:config/crd/bases
  github.com/prometheus-operator/prometheus-operator@v0.85.0:example/prometheus-operator-crd
  github.com/cert-manager/cert-manager@v1.21.1:deploy/crds
  sigs.k8s.io/lws@v0.7.0:config/crd/bases
  sigs.k8s.io/gateway-api@v1.4.1:config/crd/standard
  sigs.k8s.io/gateway-api-inference-extension@v1.3.0:config/crd/bases"
tools=$PWD/build/helm/bin
apiserver="" kubelet="" picker="" export_bin=$PWD/build/release/bin
while [ $# -gt 0 ]; do
  case $1 in
    --apiserver) apiserver=1; shift ;;
    --kubelet) kubelet=1; shift ;;
    --endpoint-picker) picker=1; shift ;;
    --) shift; break ;;
    --bin) export_bin=$(realpath "$2"); shift 2 ;;
    *) echo "unknown option '$1': expected --apiserver, --kubelet, --endpoint-picker or --bin DIR" >&2; exit 2 ;;
  esac
done
[ $# -eq 0 ] || [ -n "$kubelet" ] || { echo "found '$1' after --: only --kubelet takes names of tests" >&2; exit 2; }
export NUMOE_BIN=$export_bin GOTOOLCHAIN=local CGO_ENABLED=0 GOBIN=$tools PYTHONDONTWRITEBYTECODE=1
mkdir -p "$tools"

# skip WHAT REASON: reports that something is not available here; with NUMOE_REQUIRE=1 it ends the run.
skip() {
  echo "SKIPPED $1: $2" >&2
  [ "${NUMOE_REQUIRE:-}" != 1 ] || { echo "With NUMOE_REQUIRE=1 $1 may not be skipped." >&2; exit 1; }
}

# go_install VARIABLE NAME MODULE [LDFLAGS]: sets VARIABLE to the program that it names already, or to one that Go builds; returns 1 if
# neither is possible.
go_install() {
  local variable=$1 name=$2 module=$3 flags=${4:-}
  if [ -n "${!variable:-}" ]; then return 0; fi
  if [ ! -x "$tools/$name.${module##*@}" ]; then
    command -v go >/dev/null || { echo "no go" >&2; return 1; }
    echo "building $name ${module##*@}" >&2
    nice go install -trimpath -ldflags="-s -w $flags" "$module" >"$tools/$name.log" 2>&1 || { tail -n 5 "$tools/$name.log" >&2; return 1; }
    mv "$tools/$name" "$tools/$name.${module##*@}"
  fi
  printf -v "$variable" %s "$tools/$name.${module##*@}"
  export "${variable?}"
}

# go_build VARIABLE PACKAGE WHAT [LDFLAGS]: the same for a program of the module tests/helm/cluster, whose main package is ".".
go_build() {
  local variable=$1 package=$2 what=$3 flags=${4:-} name sum
  if [ -n "${!variable:-}" ]; then return 0; fi
  name=$([ "$package" = . ] && echo cluster || basename "$package")
  sum=$(cat tests/helm/cluster/go.* "tests/helm/cluster/$package"/*.go | sha256sum | head -c 12)
  if [ ! -x "$tools/$name.$sum" ]; then
    command -v go >/dev/null || { echo "no go" >&2; return 1; }
    echo "building $what" >&2
    (cd tests/helm/cluster && nice go build -trimpath -ldflags="-s -w $flags" -o "$tools/$name.$sum" "./$package") >"$tools/$name.log" 2>&1 ||
      { tail -n 5 "$tools/$name.log" >&2; return 1; }
  fi
  printf -v "$variable" %s "$tools/$name.$sum"
  export "${variable?}"
}

# Builds the module's programs, with their version in them; with the argument "node" also those of a node.
build_cluster() {
  local version flags at=k8s.io/component-base/version
  version=$(sed -n 's/^\tk8s.io\/kubernetes v1\.\([0-9]*\)\.\([0-9]*\)$/\1 \2/p' tests/helm/cluster/go.mod)
  local minor=${version% *} patch=${version#* }
  flags="-X $at.gitVersion=v1.$minor.$patch -X $at.gitMajor=1 -X $at.gitMinor=$minor"
  go_build CLUSTER . "kube-apiserver, kube-controller-manager and kubectl 1.$minor.$patch" "$flags" || return 1
  [ "${1:-}" = node ] || return 0
  go_build NODE node "kubelet, kube-scheduler and kube-proxy 1.$minor.$patch" "$flags" && go_build PAUSE pause "pause"
}

packages=tests/helm/packages.txt
install_packages "$packages" || skip "installing $packages" "not installed: apt-get cannot install them"
python=python3
"$python" -c 'import yaml' 2>/dev/null || python=/usr/bin/python3
"$python" -c 'import yaml' 2>/dev/null || { skip "everything" "not installed: python3-yaml"; exit 0; }
capabilities="-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34"
go_install HELM helm "helm.sh/helm/v3/cmd/helm@$HELM_VERSION" "$capabilities" || { skip "everything" "not installed: helm, which cannot be built (no Go, or no module proxy)"; exit 0; }

if [ -n "$kubelet" ]; then
  install_packages tests/helm/kubelet/packages.txt || true  # tests/helm/kubelet/run.py says which programs are missing
  build_cluster node || { skip "the kubelet" "not installed: it cannot be built"; exit 0; }
  "$python" tests/helm/kubelet/run.py "$@"
  exit
fi

# Builds the picker and the gateway that calls it, and finds the folder of the picker's CustomResourceDefinitions.
build_picker() {
  local module=sigs.k8s.io/gateway-api-inference-extension
  [ -n "${PICKER:-}" ] || (cd tests/helm/picker && nice go build -trimpath -ldflags="-s -w" -o "$tools/picker" . && go mod download "$module") || return 1
  export PICKER=${PICKER:-$tools/picker}
  PICKER_CRDS=$(cd tests/helm/picker && go list -m -f '{{.Dir}}' "$module")/config/crd/bases
  export PICKER_CRDS
}

if [ -n "$picker" ]; then
  command -v etcd >/dev/null || { skip "the endpoint picker" "not installed: etcd"; exit 0; }
  build_cluster || { skip "the endpoint picker" "not installed: the API server, which cannot be built"; exit 0; }
  build_picker || { skip "the endpoint picker" "not installed: it cannot be built (no Go, or no module proxy)"; exit 0; }
  (cd tests/helm && "$python" endpoint_picker.py)
  exit
fi

if [ -n "$apiserver" ]; then
  command -v etcd >/dev/null || { skip "the API server" "not installed: etcd"; exit 0; }
  build_cluster || { skip "the API server" "not installed: it cannot be built"; exit 0; }
  if go_install KWOK kwok "sigs.k8s.io/kwok/cmd/kwok@$KWOK_VERSION"; then
    KWOK_STAGES=$(go env GOMODCACHE)/sigs.k8s.io/kwok@$KWOK_VERSION/kustomize/stage
    export KWOK_STAGES
  else
    skip "running pods" "not installed: kwok, which cannot be built"
  fi
  echo "== kustomize"
  "$CLUSTER" kubectl kustomize deploy/manifests >/dev/null
  (cd tests/helm && "$python" apiserver.py)
  exit
fi

echo "== helm lint"
for values in helm/numoe/values-*.yaml; do "$HELM" lint --strict --quiet helm/numoe -f "$values"; done
echo "== manifests are what the chart renders"
deploy/manifests/render.sh --check
echo "== templates, refusals, scripts, handbook, daemons"
(cd tests/helm && "$python" ../support/skips.py test_chart test_names test_observability test_package test_image test_manifests test_values test_remote test_gpus test_router test_gateway test_refusals test_scripts test_handbook test_daemons)

echo "== schemas"
if go_install KUBECTL_VALIDATE kubectl-validate "sigs.k8s.io/kubectl-validate@$VALIDATE_VERSION"; then
  # The modules of Kubernetes contain its OpenAPI documents.
  for version in $SCHEMA_VERSIONS; do (cd "$tools" && go mod download "k8s.io/kubernetes@$version") || skip "schemas of $version" "not installed: its module cannot be downloaded"; done
  versions=$(mktemp -d)
  trap 'rm -rf "$versions"' EXIT
  for version in $SCHEMA_VERSIONS; do
    module=$(go env GOMODCACHE)/k8s.io/kubernetes@$version
    [ ! -d "$module" ] || ln -s "$module" "$versions/"
  done
  mkdir "$versions/crds"
  for source in $CRD_MODULES; do
    if (cd "$tools" && go mod download "${source%:*}"); then
      cp "$(go env GOMODCACHE)/${source%:*}/${source##*:}"/*.yaml "$versions/crds/"
    else
      skip "schemas of ${source%:*}" "not installed: its module cannot be downloaded"
    fi
  done
  KUBERNETES_MODULES=$versions OPERATOR_CRDS=$versions/crds "$python" tests/helm/schemas.py
else
  skip "schemas" "not installed: kubectl-validate, which cannot be built"
fi
