#!/usr/bin/env bash
# deploy/helm/comera: rendered by the template engine that Helm uses, the chart's
# objects are those that kustomize makes, and they hold together. Helm itself is
# not in Debian, and no cluster is asked.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
for tool in kubectl:kubectl go:golang-go; do
  if ! command -v "${tool%:*}" >/dev/null; then
    echo "SKIPPED: ${tool#*:} is not installed"
    exit 0
  fi
done
if ! /usr/bin/python3 -c "import jsonschema, yaml" 2>/dev/null; then
  echo "SKIPPED: python3-jsonschema and python3-yaml are not installed"
  exit 0
fi
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/helm_chart.XXXXXX")
trap 'rm -rf "$work"' EXIT
# kustomize follows no links out of a folder.
cp -rL deploy/kubernetes "$work/from"
for folder in example example-gpu; do
  HOME=$work kubectl kustomize "$work/from/$folder" >"$work/$folder.yaml" \
    2>"$work/output" || {
    cat "$work/output" >&2
    exit 1
  }
done
HOME=$work GOCACHE=$work/cache GO111MODULE=off go build \
  -o "$work/render_chart" tests/deploy/kubernetes/render_chart.go
gather_programs "$work/bin"
export RENDERED=$work CHART=$PWD/deploy/helm/comera PROGRAMS=$work/bin
/usr/bin/python3 -B tests/deploy/kubernetes/helm_chart_test.py
