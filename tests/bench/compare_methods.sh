#!/bin/sh
# One step of a model under every method, at several batch sizes, in turn and
# on the same cores; prints seconds, memory and ratios to the first method.
#   tests/bench/compare_methods.sh [--model=six_encoder] [--steps=5] \
#     [--batches="1 32"] [--methods="dense galore lora lte cola comera"]
set -eu
cd "$(dirname "$0")/../.."

model=six_encoder
steps=5
batches="1 32"
methods="dense galore lora lte cola comera"
for argument; do
  case "$argument" in
    --model=*) model=${argument#*=} ;;
    --steps=*) steps=${argument#*=} ;;
    --batches=*) batches=${argument#*=} ;;
    --methods=*) methods=${argument#*=} ;;
    --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $argument (see --help)" >&2; exit 2 ;;
  esac
done

bazel build -c opt //tests/bench:step >&2
step=bazel-bin/tests/bench/step
results=$(mktemp)
trap 'rm -f "$results"' EXIT

for batch in $batches; do
  : >"$results"
  for method in $methods; do
    # Heads of LTE share the batch, so that it needs one sample for each.
    if [ "$method" = lte ] && [ "$batch" -lt 32 ]; then
      set -- "--set=compression.lte.heads=$batch"
    else
      set --
    fi
    echo "$model, $method, batch $batch ..." >&2
    "$step" --model="$model" --method="$method" --batch="$batch" \
      --steps="$steps" --threads="$(nproc)" --json "$@" >>"$results"
  done
  /usr/bin/python3 tests/bench/print_ratios.py "$results"
  echo
done
