#!/usr/bin/env bash
# Renders these manifests from the chart: one for each of its values-*.yaml, and in monitoring/ one of the same name for the
# Prometheus operator. A claim of the weights is in a file of its own, in weights/: who deletes what an applied manifest has made
# keeps the weights.
#   deploy/manifests/render.sh           writes them
#   deploy/manifests/render.sh --check   compares, and says what to do if they differ
# HELM names the program.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
chart=$here/../../helm/numoe
helm=${HELM:-helm}
out=$here
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi

# render FILE WHAT HOW HELM'S OPTIONS...: HOW are the lines that say how to apply it.
render() {
  local file=$1 what=$2 how=$3
  shift 3
  {
    echo "# $what, rendered by deploy/manifests/render.sh: change the chart, not this."
    sed 's/^/#   /' <<<"$how"
    "$helm" template numoe "$chart" --namespace numoe --kube-version 1.34.0 --skip-tests "$@" | sed 's/[[:space:]]*$//'
  } >"$out/$file"
}

apply="kubectl apply --server-side -f"
mkdir -p "$out/weights" "$out/monitoring"
for values in "$chart"/values-*.yaml; do
  name=${values##*/values-}
  how="kubectl create namespace numoe; $apply $name"
  claim=()
  if ! grep -q '^  mode: none$' "$values"; then
    how="kubectl create namespace numoe; $apply weights/$name -f $name
Deleting what this file made keeps the weights: their claim is in weights/$name. Deleting the namespace deletes them."
    render "weights/$name" "The claim of the weights of $name" "$apply weights/$name
Deleting what this file made deletes the weights." -f "$values" --show-only templates/persistence.yaml
    claim=(--set persistence.mode=existing,persistence.existingClaim=numoe-weights)
  fi
  # Behind a router nobody else may ask the coordinators, whose port has their metrics, too: who scrapes them must be let in.
  scrapers=()
  ! grep -q '^router:' "$values" || scrapers=(--set-json 'networkPolicy.metricsFrom=[{"namespaceSelector":{}}]')
  render "$name" "helm/numoe with values-$name" "$how" -f "$values" "${claim[@]}" "${scrapers[@]}"
  render "monitoring/$name" "For the Prometheus operator, beside $name" "$apply monitoring/$name" -f "$values" \
    --set metrics.monitors.enabled=true,metrics.rules.enabled=true --show-only templates/monitors.yaml --show-only templates/observability.yaml
done
render monitoring/dashboard.yaml "For Grafana's sidecar, beside any of the manifests" "$apply monitoring/dashboard.yaml" \
  -f "$chart/values-nano.yaml" --set metrics.dashboards.enabled=true --show-only templates/observability.yaml

if [ "$out" != "$here" ]; then
  for file in "$out"/*.yaml "$out"/{weights,monitoring}/*.yaml; do
    name=${file#"$out/"}
    diff -u "$here/$name" "$file" || { echo "deploy/manifests/$name is not what the chart renders: run deploy/manifests/render.sh" >&2; failed=1; }
  done
  [ -z "${failed:-}" ]
fi
