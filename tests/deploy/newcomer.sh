#!/usr/bin/env bash
# Plays a newcomer: from a clean Debian 12 with nothing of comera to a first
# model, to a classifier of data of one's own, a language model, a PyTorch model
# of one's own, a sweep, and the dashboard, each by the commands that a person
# would type. Prints those commands, the ends of what they print, and the
# seconds of each way; fails where one does not arrive. Needs what
# tests/deploy/clean_debian.sh needs. Not part of tests/run.sh.
#
#   tests/deploy/newcomer.sh [--programs=FOLDER | --debs=FOLDER] [--without-torch]
#
#   --programs       the four programs; default: those of bazel-bin
#   --debs           the packages, made by deploy/debian/build.sh before
#   --without-torch  leaves the PyTorch model out: Debian's PyTorch is a download
#                    of some hundred megabytes
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/deploy/clean_debian.sh
source tests/deploy/clean_debian.sh
work="" root=""  # set there
programs="" debs="" torch=yes
for argument; do
  value=${argument#*=}
  case "$argument" in
    --programs=?*) programs=$value ;;
    --debs=?*) debs=$value ;;
    --without-torch) torch=no ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
make_clean_debian "$debs" "$programs"

# Says what the newcomer wants, and begins to count its seconds.
way() {
  title=$1 began=$(now)
  echo
  echo "== $title"
}
# Types a command, and shows the last lines that it prints: LINES COMMAND.
types() {
  echo "\$ $2"
  as_newcomer "$2" >"$work/log" 2>&1 || fail "$title: $2"
  tail -n "$1" "$work/log"
}
arrived() { echo "-- $title: $(seconds "$began" "$(now)") s"; }
# The newcomer's answer is expected to hold this.
shows() { grep -E "$1" "$work/log" >/dev/null || fail "$title: no $1"; }
examples=/usr/share/doc/comera-client/examples

way "first model"
echo "\$ apt-get install comera"
install_packages comera || fail "$title: cannot install"
types 3 "comera run $examples/dlrm_synthetic.yaml --model-dir first \
  --set data.synthetic_clicks.train_rows=30000 \
  --set data.synthetic_clicks.validation_rows=2000 \
  --set training.batch_size=128 --set objective.early.steps=200 \
  --set training.validate_every_steps=100"
types 3 "ls first"
shows model.safetensors
arrived

way "data of one's own"
# What somebody has: texts with a label each.
awk 'BEGIN {
  srand(7); print "text,label"
  split("splendid lovely great fine", good); split("awful boring bad poor", bad)
  split("film story play cast music", what)
  for (i = 0; i < 2000; ++i) {
    kind = rand() < 0.5
    word = kind ? good[1 + int(4 * rand())] : bad[1 + int(4 * rand())]
    printf "\"a %s %s, number %d\",%s\n", word, what[1 + int(5 * rand())], \
      i, kind ? "good" : "bad"
  }
}' >"$root/home/newcomer/reviews.csv"
cat >"$root/home/newcomer/reviews.yaml" <<'YAML'
display_name: my reviews
model: {family: encoder_classifier, layers: 1, hidden: 64, heads: 4}
data:
  labelled_text: {train: reviews.csv}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 500}
  max_length: 32
objective:
  early: {steps: 60}
  late: {target_accuracy: 0.95, target_ratio: 0.8, max_steps: 150}
training: {batch_size: 32, validate_every_steps: 20}
YAML
types 2 "comera validate reviews.yaml"
types 12 "comera run reviews.yaml --model-dir reviews"
shows TARGET_MET
types 2 "echo '{\"text\": \"a lovely story, number 3\"}' | comera predict reviews"
shows good
types 2 "echo '{\"text\": \"a boring cast, number 3\"}' | comera predict reviews"
shows bad
arrived

way "language model"
# A text of one's own: what a Debian says of its licences.
cat "$root"/usr/share/common-licenses/* >"$root/home/newcomer/text.txt"
types 8 "comera run $examples/gpt2_characters.yaml --model-dir writer \
  --set data.text.train=text.txt --set objective.early.steps=300 \
  --set training.validation_samples=64"
shows COMPLETED
types 4 "comera generate writer 'The licence ' --max-tokens 60 --seed 1"
shows 'tokens of prompt'
arrived

if [ "$torch" = yes ]; then
  way "a PyTorch model of one's own"
  echo "\$ apt-get install python3-comera python3-torch libopenblas0-openmp"
  install_packages python3-comera python3-torch libopenblas0-openmp ||
    fail "$title: cannot install"
  echo "-- installed: $(seconds "$began" "$(now)") s"
  types 12 "comera run $examples/own_program.yaml --model-dir own \
    --set program.files=/usr/share/doc/python3-comera/examples \
    --set 'program.arguments=[--steps, 60, --late-steps, 120]' \
    --set objective.late.target_loss=6"
  shows TARGET_MET
  types 2 "ls own"
  shows model.pt
  arrived
fi

way "sweep"
types 1 "nohup comera-server --data_dir=server --listen=127.0.0.1:17400 \
  --http_listen=127.0.0.1:17480 >server.log 2>&1 &
echo \$! >server.pid"
types 1 "nohup comera-worker --server=127.0.0.1:17400 --data_dir=worker \
  --data_root=\$HOME --name=mine --slots=2 --member_lease=0 >worker.log 2>&1 &
echo \$! >worker.pid"
# shellcheck disable=SC2016
ends() { as_newcomer 'kill $(cat worker.pid) $(cat server.pid)' || true; }
trap 'ends; remove_clean_debian' EXIT
{
  cat "$root/home/newcomer/reviews.yaml"
  cat <<'YAML'
sweep:
  random:
    runs: 3
    seed: 1
    fields:
      optimizer.learning_rate_cores: {min: 0.001, max: 0.01, log: true}
      model.layers: [1, 2]
YAML
} >"$root/home/newcomer/sweep.yaml"
types 12 "export COMERA_SERVER=127.0.0.1:17400
comera sweep sweep.yaml --watch --set objective.late.max_steps=60 || [ \$? = 104 ]"
shows sweeps/
types 8 "comera --server 127.0.0.1:17400 sweep ls"
arrived

way "dashboard"
# A browser asks for these; what it shows is tests/server/dashboard's business.
# shellcheck disable=SC2016
answer() {
  python3 - "$1" <<'PYTHON'
import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:17480" + sys.argv[1], timeout=10).read().decode())
PYTHON
}
echo "(a browser at http://127.0.0.1:17480/)"
answer / >"$work/log" || fail "$title: no page"
shows '<script'
answer /v1/jobs >"$work/log" || fail "$title: no jobs"
shows 'my reviews'
echo "the page, and $(grep -o '"name": *"jobs/' "$work/log" | wc -l) jobs"
arrived
echo
echo "load of the machine's $(nproc) processors: $(cut -d' ' -f1-3 /proc/loadavg)"
echo "the newcomer arrived everywhere"
