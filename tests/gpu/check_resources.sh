#!/usr/bin/env bash
# resources.py over the reports of this build; arguments go to it.
set -euo pipefail
exec tests/gpu/resources.py --hot=tests/gpu/hot_kernels.txt "$@" \
  $(find -L . -name '*.ptxas.txt')
