#!/bin/sh
# Continues texts with a LLaMA of the 60M shape, in turn and on the same cores:
# dense in PyTorch, then here by each method; prints tokens a second and ratios.
#   tests/bench/generation.sh [--batches=1,8] [--tokens=128] [--prompt=32]
#     [--methods="dense comera"] [--threads=2] [--set=field.path=value ...]
# The tensor-train model has a fifth of the dense one's parameters; --set gives
# it other ranks (compression.attention.ranks and so on).
# Needs Debian's python3-torch and an optimised BLAS (libopenblas0-openmp): both
# are installed if this runs as root, else asked for.
set -eu
cd "$(dirname "$0")/../.."

batches=1,8
methods="dense comera"
prompt=32
tokens=128
threads=2
set=
for layer in attention ffn_up ffn_down; do
  set="$set --set compression.$layer.ranks=112"
done
for layer in embedding output; do
  set="$set --set compression.$layer.ranks=160"
done
for argument; do
  case "$argument" in
    --batches=*) batches=${argument#*=} ;;
    --methods=*) methods=${argument#*=} ;;
    --prompt=*) prompt=${argument#*=} ;;
    --tokens=*) tokens=${argument#*=} ;;
    --threads=*) threads=${argument#*=} ;;
    --set=*) set="$set --set ${argument#*=}" ;;
    --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $argument (see --help)" >&2; exit 2 ;;
  esac
done

# Debian's own interpreter: others do not see its packages.
python=/usr/bin/python3
packages="python3-torch libopenblas0-openmp"
if ! "$python" -c 'import torch' 2>/dev/null ||
  ! dpkg -s libopenblas0-openmp >/dev/null 2>&1; then
  if [ "$(id -u)" != 0 ]; then
    echo "please install: $packages" >&2
    exit 1
  fi
  apt-get install -y -q $packages >&2
fi

bazel build -c opt //tests/bench:generation >&2
results=$(mktemp)
trap 'rm -f "$results"' EXIT

echo "PyTorch, dense ..." >&2
"$python" tests/bench/pytorch_generation.py --batches="$batches" \
  --prompt="$prompt" --tokens="$tokens" --threads="$threads" >>"$results"
for method in $methods; do
  changes=
  if [ "$method" = comera ]; then changes=$set; fi
  echo "comera, $method ..." >&2
  # shellcheck disable=SC2086 # $changes is a list of words
  bazel-bin/tests/bench/generation --method="$method" --batches="$batches" \
    --prompt="$prompt" --tokens="$tokens" --threads="$threads" --json \
    $changes >>"$results"
done
"$python" tests/bench/print_generation.py "$results"
