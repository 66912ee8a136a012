#!/usr/bin/env bash
# Renders the folders of deploy/kubernetes with kubectl, which needs no cluster
# for it, and has kubernetes_test.py look at what comes out.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
if ! command -v kubectl >/dev/null; then
  echo "SKIPPED: kubectl is not installed"
  exit 0
fi
if ! /usr/bin/python3 -c "import jsonschema, yaml" 2>/dev/null; then
  echo "SKIPPED: python3-jsonschema and python3-yaml are not installed"
  exit 0
fi
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/kubernetes.XXXXXX")
trap 'rm -rf "$work"' EXIT
# kustomize follows no links out of a folder.
cp -rL deploy/kubernetes "$work/from"
mkdir "$work/rendered"
FOLDERS=""
for folder in "$work"/from/*/; do
  name=$(basename "$folder")
  HOME=$work kubectl kustomize "$folder" >"$work/rendered/$name.yaml" \
    2>"$work/output" || {
    cat "$work/output" >&2
    exit 1
  }
  FOLDERS+=" $name"
done
gather_programs "$work/bin"
export FOLDERS RENDERED=$work/rendered PROGRAMS=$work/bin
/usr/bin/python3 -B tests/deploy/kubernetes/kubernetes_test.py
