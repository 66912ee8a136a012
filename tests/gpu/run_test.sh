#!/usr/bin/env bash
# run.sh as it lies in a bundle, with a program and a GPU that are fake; and
# gpu_tests.txt names what BUILD builds. Arguments: the labels of BUILD.
set -uo pipefail
problems=0
wanted=$(printf '//tests/gpu%s\n' "$@" | sed -E 's%^//tests/gpu//%//%' | sort)
listed=$(sed -nE 's%^(//[^ ]+) [0-9]+( .*)?$%\1%p' tests/gpu/gpu_tests.txt | sort)
if [ "$wanted" != "$listed" ]; then
  printf 'GPU_TESTS of tests/gpu/BUILD:\n%s\ngpu_tests.txt:\n%s\n' \
    "$wanted" "$listed"
  problems=1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/bundle
mkdir -p "$bundle/deploy" "$bundle/tests/gpu" "$work/cuda/lib64" "$work/shared"
cp -L deploy/with_cuda.sh "$bundle/deploy/"
cp -L tests/gpu/run.sh tests/gpu/run_programs.sh "$bundle/tests/gpu/"
mkdir -p "$bundle/bin/tests/gpu" "$bundle/bin/tests/other"
cp -L tests/gpu/run_programs_fixture "$bundle/bin/tests/gpu/Good"
cp -L tests/gpu/run_programs_fixture "$bundle/bin/tests/other/GoodSkips"
cp -L tests/gpu/run_programs_fixture "$bundle/bin/tests/other/Bad"
cat >"$bundle/tests/gpu/gpu_tests.txt" <<EOT
# programs
//tests/gpu:Good 9
//tests/other:GoodSkips 9  # comment
//tests/other:Bad 9 shared
EOT
touch "$work/cuda/lib64/"{libcublas.so.13,libcublasLt.so.13,libnccl.so.2}
mkdir "$work/tools"
printf '#!/bin/sh\n[ "$1" != -L ] || cat "%s/gpus"\n' "$work" \
  >"$work/tools/nvidia-smi"
chmod +x "$work/tools/nvidia-smi"

check() {  # check NAME 'LAST LINE' STATUS ARGUMENT...
  local name=$1 line=$2 want=$3 got=0 output
  shift 3
  output=$(cd "$work" && env -u COMERA_SHARED_DIR PATH="$work/tools:$PATH" \
    CUDA_HOME="$work/cuda" bundle/tests/gpu/run.sh "$@" 2>&1) || got=$?
  if [ "$(tail -n 1 <<<"$output")" != "$line" ] || [ "$got" -ne "$want" ]; then
    printf '%s: wanted "%s", status %s; got status %s and\n%s\n\n' \
      "$name" "$line" "$want" "$got" "$output"
    problems=$((problems + 1))
  fi
}
: >"$work/gpus"
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
  check "no GPU" "0 passed, 1 failed, 0 skipped" 1
fi
echo "GPU 0: a fake" >"$work/gpus"
check "without shared" "4 passed, 0 failed, 2 skipped" 0
check "with shared" "4 passed, 1 failed, 1 skipped" 1 --shared "$work/shared"
check "some" "2 passed, 0 failed, 0 skipped" 0 --only=tests/gpu: --out=results
[ -s "$work/out/gpu_tests/GoodSkips.log" ] || problems=$((problems + 1))
[ -s "$work/results/gpu_tests/Good.json" ] || problems=$((problems + 1))
[ "$problems" -eq 0 ] && echo "all as wanted"
[ "$problems" -eq 0 ]
