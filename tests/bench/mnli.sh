#!/bin/sh
# The paper's MNLI experiment: the six-encoder dense, after the early stage,
# and at three smaller sizes; prints the table of docs/mnli.md.
#   tests/bench/mnli.sh --data=DIR [--device=gpu|cpu] [--out=DIR] \
#     [--early_steps=N] [--late_steps=N] [--set K=V]...
# DIR holds mnli/train.tsv(.gz), mnli/dev_matched.tsv and
# bert-uncased/vocab.txt (GLUE's MNLI, BERT's vocabulary). Days on CPUs: fewer
# steps shorten it (late: towards each size; dense: the sum of both).
set -eu
cd "$(dirname "$0")/../.."

data=
device=gpu
out=mnli_runs
early=245440
late=122720
sets=
while [ $# -gt 0 ]; do
  case "$1" in
    --data=*) data=${1#*=} ;;
    --device=*) device=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --early_steps=*) early=${1#*=} ;;
    --late_steps=*) late=${1#*=} ;;
    --set) shift; sets="$sets --set $1" ;;
    --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done
if [ -z "$data" ]; then
  echo "--data=DIR is needed (see --help)" >&2
  exit 2
fi
train=$data/mnli/train.tsv
[ -e "$train" ] || train=$train.gz
vocabulary=$data/bert-uncased/vocab.txt
[ -e "$vocabulary" ] || vocabulary=$data/vocab/bert-uncased/vocab.txt
for file in "$train" "$data/mnli/dev_matched.tsv" "$vocabulary"; do
  if [ ! -e "$file" ]; then
    echo "there is no $file" >&2
    exit 2
  fi
done

cuda=
[ "$device" != gpu ] || cuda=--config=cuda
# shellcheck disable=SC2086 # one word or none
bazel build -c opt $cuda //client:comera //server:comera-server \
  //worker:comera-worker //worker/trainer:comera-trainer >&2
mkdir -p "$out"

# Exit status 104: a target was missed; its nearest model is a result too.
run() {
  name=$1
  job=$2
  shift 2
  echo "== $name" >&2
  # shellcheck disable=SC2086 # words of --set
  bazel-bin/client/comera run "$job" -o json \
    --trainer-binary "$PWD/bazel-bin/worker/trainer/comera-trainer" \
    --server-binary "$PWD/bazel-bin/server/comera-server" \
    --worker-binary "$PWD/bazel-bin/worker/comera-worker" \
    --data-dir "$out/$name" --model-dir "$out/$name/models" \
    --set data.glue_tsv.train="$(realpath "$train")" \
    --set data.glue_tsv.validation="$(realpath "$data/mnli/dev_matched.tsv")" \
    --set data.tokenizer.vocabulary_file="$(realpath "$vocabulary")" \
    --set resources.device="$device" $sets "$@" \
    >"$out/$name.jsonl" || [ $? = 104 ]
}
run dense docs/examples/mnli_six_encoder_dense.yaml \
  --set objective.early.steps=$((early + late))
run comera docs/examples/mnli_six_encoder.yaml \
  --set objective.early.steps="$early" --set objective.late.max_steps="$late"
python3 tests/bench/mnli_table.py "$out/dense.jsonl" "$out/comera.jsonl"
