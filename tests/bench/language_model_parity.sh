#!/bin/sh
# Trains one dense LLaMA here and in PyTorch, from the same parameters on the
# same batches of a text, and compares their losses step by step. Fails if two
# differ by more than 1e-3.
#   tests/bench/language_model_parity.sh [--text=FILE] [--steps=300]
# FILE: one document; default: the GPL in /usr/share/common-licenses. Needs
# Debian's python3-torch and libopenblas0-openmp.
set -eu
cd "$(dirname "$0")/../.."
text=/usr/share/common-licenses/GPL-3
steps=300
for argument; do
  case "$argument" in
    --text=*) text=${argument#*=} ;;
    --steps=*) steps=${argument#*=} ;;
    --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $argument (see --help)" >&2; exit 2 ;;
  esac
done
bazel build -c opt //tests/bench:training_curve >&2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Grouped heads, odd sizes, and a schedule that warms up and decays. Tables are
# trained as PyTorch trains them.
bazel-bin/tests/bench/training_curve --job=docs/examples/llama_60m.yaml \
  --set model.layers=3 --set model.hidden=96 --set model.ffn=250 \
  --set model.heads=6 --set model.kv_heads=2 --set data.max_length=64 \
  --set "data.text.train=[\"$text\"]" \
  --set data.tokenizer.kind=characters \
  --set data.tokenizer.train_vocabulary_size=0 \
  --set training.batch_size=12 --set optimizer.kind=adamw \
  --set optimizer.learning_rate_other=0.003 \
  --set optimizer.tables=adamw_on_all_rows --set optimizer.beta2=0.95 \
  --set optimizer.warmup_steps=30 --steps="$steps" --out="$out"
/usr/bin/python3 tests/bench/language_model_parity.py "$out"
