#!/usr/bin/env bash
# Every file that names comera's version names that of common/version.h.
set -euo pipefail
version=$(deploy/version.sh)
failed=0
# same FILE PATTERN: the first group of every match is the version.
same() {
  local found
  found=$(sed -nE "s%^.*$2.*\$%\1%p" "$1" | sort -u)
  if [ "$found" != "$version" ]; then
    echo "$1 names version '$found', common/version.h $version" >&2
    failed=1
  fi
}
same client/python/comera/_version.py '^__version__ = "([^"]*)"'
same deploy/kubernetes/example/kustomization.yaml 'newTag: ([^},]*)'
same deploy/kubernetes/example-gpu/kustomization.yaml 'newTag: ([^},]*)'
same deploy/helm/comera/Chart.yaml '^version: (.*)'
same deploy/helm/comera/Chart.yaml '^appVersion: (.*)'
# The newest section of the release notes is that of this version.
newest=$(sed -nE 's/^## ([0-9][^ ]*).*/\1/p' CHANGELOG.md | head -n 1)
if [ "$newest" != "$version" ]; then
  echo "CHANGELOG.md begins with '$newest', common/version.h says $version" >&2
  failed=1
fi
for program in client/comera server/comera-server worker/comera-worker \
  worker/trainer/comera-trainer; do
  if ! "$program" --version | grep -F " $version" >/dev/null; then
    echo "$program is of $("$program" --version), not $version" >&2
    failed=1
  fi
done
[ "$failed" = 0 ] && echo "version $version everywhere"
exit "$failed"
