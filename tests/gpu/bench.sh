#!/usr/bin/env bash
# Measures training steps and kernels on the GPU, in under 9 minutes: ours
# (dense, comera, galore; eager and graph; fp32, TF32, bf16) beside dense
# PyTorch, eager and compiled, where PyTorch with CUDA is installed.
#
#   tests/gpu/bench.sh [--out=DIR] [--seconds=520] [--python=python3]
#
# Writes bench.json and bench.md to --out (default ./out), after every program,
# the most important first. In the tree it builds the programs, in a bundle of
# deploy/gpu_bundle.sh they lie ready.
set -euo pipefail

out=out pass=()
while [ $# -gt 0 ]; do
  case "$1" in
    --out=?*) out=${1#*=} ;;
    --seconds=?* | --python=?*) pass+=("$1") ;;
    --out | --seconds | --python)
      if [ $# -lt 2 ]; then
        echo "tests/gpu/bench.sh: $1 needs a value" >&2
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
      echo "tests/gpu/bench.sh: unknown argument '$1' (--help)" >&2
      exit 2
      ;;
  esac
  shift
done
if ! { nvidia-smi -L 2>/dev/null || ls /dev/nvidia[0-9]* 2>/dev/null; } |
  grep -q .; then
  echo "tests/gpu/bench.sh: no GPU on this machine; nothing was measured" >&2
  exit 1
fi
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")/../.."

programs=bin
if [ ! -d bin ]; then
  bazel build --config=cuda //tests/gpu:programs >&2
  programs=bazel-bin
fi
python3 tests/gpu/bench.py --programs="$PWD/$programs" \
  --launcher="$PWD/deploy/with_cuda.sh" --out="$out" "${pass[@]}"
echo "$out/bench.md"
