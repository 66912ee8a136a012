#!/usr/bin/env bash
# Runs every test that needs a GPU, in under 8 minutes on one GPU, and closes
# with one line: N passed, N failed, N skipped. Fails where there is no GPU.
#
#   tests/gpu/run.sh [--shared=DIR] [--out=DIR] [--only=REGEX]
#
#   --shared   the folder with golden/ and data/; default: COMERA_SHARED_DIR, or
#              shared/ beside the checkout. Tests that need it are skipped, and
#              say so, without it.
#   --out      where logs and results go, below gpu_tests/; default: ./out
#   --only     programs whose label matches
#
# In the tree it builds them first, with --config=cuda; in a bundle of
# deploy/gpu_bundle.sh they lie ready.
set -euo pipefail

shared=${COMERA_SHARED_DIR:-} out=out only=.
while [ $# -gt 0 ]; do
  case "$1" in
    --shared=*) shared=${1#*=} ;;
    --out=?*) out=${1#*=} ;;
    --only=?*) only=${1#*=} ;;
    --shared | --out | --only)
      if [ $# -lt 2 ]; then
        echo "tests/gpu/run.sh: $1 needs a value" >&2
        exit 2
      fi
      set -- "$1=$2" "${@:3}"
      continue
      ;;
    --help)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
      exit 0
      ;;
    *)
      echo "tests/gpu/run.sh: unknown argument '$1' (--help)" >&2
      exit 2
      ;;
  esac
  shift
done
mkdir -p "$out/gpu_tests"
out=$(realpath "$out/gpu_tests")
[ -z "$shared" ] || shared=$(realpath "$shared")
cd "$(dirname "$0")/../.."
if [ -z "$shared" ] && [ -d ../shared/golden ]; then
  shared=$(realpath ../shared)
fi

if ! { nvidia-smi -L 2>/dev/null || ls /dev/nvidia[0-9]* 2>/dev/null; } |
  grep -q .; then
  echo "tests/gpu/run.sh: no GPU on this machine; nothing was run" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader \
  2>/dev/null || true

programs=bin
if [ ! -d bin ]; then
  bazel build --config=cuda //tests/gpu:gpu_tests >&2
  programs=bazel-bin
fi
# //a/b:c becomes PROGRAMS/a/b/c.
sed -E -e 's/#.*//' -e "\%$only%!d" -e "s%^//([^:]*):%$PWD/$programs/\1/%" \
  tests/gpu/gpu_tests.txt |
  deploy/with_cuda.sh tests/gpu/run_programs.sh --out="$out" --shared="$shared"
