#!/usr/bin/env bash
# Writes the TypeScript types of the API's messages.
#
#   build_schema.sh INSTALLED OPENAPI.json OUT.ts
#
#   INSTALLED   the file beside node_modules (deploy/bazel/npm)
#
# Without npm's packages the file is empty; build_dist.sh then compiles nothing.
set -euo pipefail
installed=$(readlink -f "$1")
openapi=$(readlink -f "$2")
out=$(readlink -f "$(dirname "$3")")/$(basename "$3")

if grep -q '^absent' "$installed"; then
  : >"$out"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work
cp "$openapi" "$work/openapi.json"
cd "$work"
node "$(dirname "$installed")/node_modules/openapi-typescript/bin/cli.js" \
  openapi.json --root-types --root-types-no-schema-prefix --output "$out" \
  >log 2>&1 || {
  cat log >&2
  exit 1
}
