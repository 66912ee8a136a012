#!/usr/bin/env bash
# machine_code.py over the machine code of this build; arguments go to it.
set -euo pipefail
mapfile -t folders < <(find -L . -name '*.cubins' | sort)
probes=() kernels=()
for folder in "${folders[@]}"; do
  case "$folder" in
    */machine_code_probes.cubins) probes+=("$folder") ;;
    *) kernels+=("$folder") ;;
  esac
done
exec tests/gpu/machine_code.py --hot=tests/gpu/hot_kernels.txt \
  --probes="${probes[0]}" "$@" "${kernels[@]}"
