#!/usr/bin/env bash
# Has a job go on from a bucket of Ceph's object gateway after its machine is
# gone, and downloads a model into the bucket, with the real programs: radosgw.sh
# runs it in place of its test.
#
#   tests/worker/object_store/radosgw.sh \
#       tests/worker/object_store/radosgw_job.sh FOLDER_WITH_THE_PROGRAMS
#
# The folder has comera, comera-server, comera-worker and comera-trainer.
set -euo pipefail

programs=$(realpath "$1")
work=$(mktemp -d /tmp/radosgw_job.XXXXXX)
pids=()
finish() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || true
  done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
  echo "$0: $*" >&2
  tail -n 20 "$work"/*.log >&2
  exit 1
}
# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < until)) || fail "this did not succeed in time: $*"
    sleep 0.3
  done
}

mkdir "$work/corpus"
for number in $(seq 40); do
  seq "$number" $((number + 400)) | tr '\n' ' ' > "$work/corpus/$number.txt"
done
cat > "$work/job.yaml" << JOB
model: {family: masked_lm, layers: 1, hidden: 32, ffn: 64, heads: 2}
data:
  code_directory: {roots: ["$work/corpus"], globs: ["*.txt"]}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 400}
  max_length: 32
objective: {early: {steps: 1000000}}
training: {batch_size: 4, validate_every_steps: 1000}
resources: {processes: 1}
checkpoint: {every_steps: 10, replicas: 0}
JOB

"$programs/comera-server" --listen=127.0.0.1:0 --data_dir="$work/server" \
  --port_file="$work/port" > "$work/server.log" 2>&1 &
pids+=($!)
wait_for 120 test -s "$work/port"
COMERA_SERVER=$(cat "$work/port")
export COMERA_SERVER
start_worker() {
  "$programs/comera-worker" --server="$COMERA_SERVER" --name="$1" --slots=1 \
    --address=127.0.0.1 --member_lease=0 --data_dir="$work/$1" \
    --data_root="$work" --trainer="$programs/comera-trainer" \
    --checkpoint_store="s3://$COMERA_TEST_S3_BUCKET/states" \
    --s3_endpoint="$COMERA_TEST_S3_ENDPOINT" --data_ca="$COMERA_TEST_S3_CA" \
    > "$work/$1.log" 2>&1 &
  worker=$!
  pids+=("$worker")
}
start_worker w1
first=$worker
job=$("$programs/comera" submit "$work/job.yaml")
durable() {
  "$programs/comera" checkpoints "$job" -o json 2> /dev/null |
    tr -d ' ' | grep -q '"durable":true'
}
wait_for 300 durable
echo "a state is in the bucket after $SECONDS s"
# The machine goes, with its disk.
kill -KILL "$first"
wait "$first" 2> /dev/null || true
rm -rf "$work/w1"
start_worker w2
goes_on() { grep 'goes on .*from="the store"' "$work/w2.log"; }
wait_for 300 goes_on
"$programs/comera" cancel "$job"
cancelled() { "$programs/comera" get "$job" -o json | grep -q CANCELLED; }
wait_for 120 cancelled
"$programs/comera" delete "$job"
list_stored() {
  curl --silent --fail --cacert "$COMERA_TEST_S3_CA" --noproxy '*' \
    --header "x-amz-content-sha256: $(sha256sum < /dev/null | cut -d' ' -f1)" \
    --aws-sigv4 aws:amz:us-east-1:s3 \
    --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
    "$COMERA_TEST_S3_ENDPOINT/$COMERA_TEST_S3_BUCKET/?list-type=2&prefix=states%2Fcheckpoints%2F${job#jobs/}%2F" \
    > "$work/stored.log"
}
nothing_is_stored() { list_stored && ! grep -q '<Key>' "$work/stored.log"; }
wait_for 120 nothing_is_stored
# A model goes to the bucket, once.
short=$("$programs/comera" submit "$work/job.yaml" --set objective.early.steps=4)
"$programs/comera" wait "$short"
download() {
  "$programs/comera" models "$short" --download \
    "s3://$COMERA_TEST_S3_BUCKET/models/short" \
    --s3-endpoint "$COMERA_TEST_S3_ENDPOINT" --data-ca "$COMERA_TEST_S3_CA" \
    2>&1 | tee "$work/download.log"
}
export XDG_STATE_HOME=$work/state
download
grep -q '[1-9][0-9]* new file' "$work/download.log" || fail "nothing is new"
download
grep -q ' 0 new files' "$work/download.log" || fail "it was uploaded again"
! grep -q "$AWS_SECRET_ACCESS_KEY" "$work"/*.log || fail "a log has the key"
echo "the job went on from the bucket, and what it left there is gone"
