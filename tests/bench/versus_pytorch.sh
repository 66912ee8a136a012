#!/bin/sh
# Runs a model, in turn and on the same cores: dense in PyTorch, then here by
# each method; prints seconds, memory and ratios.
#   tests/bench/versus_pytorch.sh [--model=six_encoder] [--batch=32] [--steps=5]
#     [--methods="dense comera"] [--threads=N] [--length=TOKENS]
# Models: six_encoder, codebert_large, llama_60m (whose methods may include
# cola). Without --length: samples of 128 tokens, llama_60m of 256.
# Needs Debian's python3-torch and an optimised BLAS (libopenblas0-openmp): both
# are installed if this runs as root, else asked for.
set -eu
cd "$(dirname "$0")/../.."

model=six_encoder
methods="dense comera"
batch=32
steps=5
length=
threads=$(nproc)
for argument; do
  case "$argument" in
    --model=*) model=${argument#*=} ;;
    --methods=*) methods=${argument#*=} ;;
    --batch=*) batch=${argument#*=} ;;
    --steps=*) steps=${argument#*=} ;;
    --threads=*) threads=${argument#*=} ;;
    --length=*) length=${argument#*=} ;;
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

bazel build -c opt //tests/bench:step >&2
step=bazel-bin/tests/bench/step
if [ -z "$length" ]; then
  length=128
  if [ "$model" = llama_60m ]; then length=256; fi
fi
results=$(mktemp)
trap 'rm -f "$results"' EXIT

echo "PyTorch, dense ..." >&2
"$python" tests/bench/versus_pytorch.py --model="$model" --batch="$batch" \
  --steps="$steps" --threads="$threads" --length="$length" >>"$results"
for method in $methods; do
  echo "comera, $method ..." >&2
  "$step" --model="$model" --method="$method" --batch="$batch" \
    --steps="$steps" --threads="$threads" --set "data.max_length=$length" \
    --json >>"$results"
done
"$python" tests/bench/print_ratios.py "$results"
