#!/usr/bin/env bash
# Runs the dashboard's tests with the packages that it was built with.
#
#   run_vitest.sh unit|browser|speed|screenshots INSTALLED [PROGRAM...]
#
#   INSTALLED   the file beside node_modules (deploy/bazel/npm)
#   PROGRAM     comera-server, comera-worker, comera-trainer
set -euo pipefail
kind=$1
installed=$(readlink -f "$2")
shift 2
programs=()
for program in "$@"; do programs+=("$(readlink -f "$program")"); done

skip() {
  echo "SKIPPED: $1" >&2
  cat >"${XML_OUTPUT_FILE:-/dev/null}" <<XML
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="1" failures="0"><testsuite name="dashboard" tests="1" failures="0">
<testcase name="$kind"><skipped/></testcase></testsuite></testsuites>
XML
  exit 0
}
command -v npm >/dev/null || skip "there is no npm (deploy/install_deps.sh --tests)"
if grep -q '^absent' "$installed"; then
  cat "$installed" >&2
  exit 1
fi
if [ "$kind" != unit ]; then
  command -v chromium >/dev/null || skip "there is no chromium (deploy/install_deps.sh --tests)"
fi

# The tree as it is in the sources, with node_modules at its top.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in server/dashboard tests/server/dashboard; do
  mkdir -p "$work/$folder"
  tar -ch --exclude=node_modules -C "$folder" . | tar -x -C "$work/$folder"
done
# Run from a checkout, the build's types are not among the sources.
schema=server/dashboard/src/api/schema.ts
[ -e "$work/$schema" ] || cp -L "bazel-bin/$schema" "$work/$schema"
ln -s "$(dirname "$installed")/node_modules" "$work/node_modules"

export HOME=$work COMERA_TEST=$kind COMERA_WORK=$work
export COMERA_PROGRAMS="${programs[*]}"
reporters=(--reporter=verbose)
if [ -n "${XML_OUTPUT_FILE:-}" ]; then
  reporters+=(--reporter=junit "--outputFile.junit=$XML_OUTPUT_FILE")
fi
cd "$work/tests/server/dashboard"
"$work/node_modules/.bin/tsc" --noEmit -p tsconfig.json
node "$work/node_modules/vitest/vitest.mjs" run "${reporters[@]}"
