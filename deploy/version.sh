#!/usr/bin/env bash
# Prints comera's version, which common/version.h alone decides: the programs are
# compiled with it, packages and archives are named after it, and
# //tests/deploy:version_test compares every other file that names a version.
set -euo pipefail
header=$(dirname "$0")/../common/version.h
version=$(sed -nE 's/.*kVersion\[\] = "([0-9]+(\.[0-9]+)+)".*/\1/p' "$header")
if [ -z "$version" ]; then
  echo "version.sh: $header defines no kVersion" >&2
  exit 1
fi
echo "$version"
