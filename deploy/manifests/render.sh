#!/usr/bin/env bash
# Renders these manifests from the chart: one for each of its values-*.yaml, and what the Prometheus operator wants.
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

# render FILE WHAT HELM'S OPTIONS...
render() {
  local file=$1 what=$2
  shift 2
  {
    echo "# $what, rendered by deploy/manifests/render.sh: change the chart, not this."
    echo "#   kubectl create namespace numoe; kubectl apply --server-side -f $file"
    "$helm" template numoe "$chart" --namespace numoe --kube-version 1.34.0 --skip-tests "$@" | sed 's/[[:space:]]*$//'
  } >"$out/$file"
}

for values in "$chart"/values-*.yaml; do
  name=${values##*/values-}
  render "$name" "helm/numoe with values-$name" -f "$values"
done
render monitoring.yaml "For the Prometheus operator and Grafana's sidecar, beside one of the others" \
  -f "$chart/values-nano.yaml" --set metrics.monitors.enabled=true,metrics.rules.enabled=true,metrics.dashboards.enabled=true \
  --show-only templates/monitors.yaml --show-only templates/observability.yaml

if [ "$out" != "$here" ]; then
  for file in "$out"/*.yaml; do
    diff -u "$here/${file##*/}" "$file" || { echo "deploy/manifests/${file##*/} is not what the chart renders: run deploy/manifests/render.sh" >&2; failed=1; }
  done
  [ -z "${failed:-}" ]
fi
