#!/usr/bin/env bash
# resources.py over the reports of this build; arguments go to it.
set -euo pipefail
mapfile -t reports < <(find -L . -name '*.ptxas.txt' | sort)
exec tests/gpu/resources.py --hot=tests/gpu/hot_kernels.txt "$@" \
  "${reports[@]}"
