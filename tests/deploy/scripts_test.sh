#!/usr/bin/env bash
# All scripts of deploy/ and of its tests, by shellcheck.
set -euo pipefail
if ! command -v shellcheck >/dev/null; then
  echo "SKIPPED: shellcheck is not installed"
  exit 0
fi
mapfile -t scripts < <(find -L deploy tests/deploy -name '*.sh' | sort)
[ ${#scripts[@]} -gt 5 ] || {
  echo "only ${#scripts[@]} scripts found" >&2
  exit 1
}
shellcheck -x "${scripts[@]}"
echo "${#scripts[@]} scripts, nothing found"
