#!/usr/bin/env bash
# Runs the programs of another commit together with those of this one.
#
#   tests/e2e/upgrade.sh [REVISION]     default: the commit before this one
#   tests/e2e/upgrade.sh FOLDER         the programs in FOLDER instead
#
# With real processes on loopback: an older worker under a newer coordinator, a
# newer worker under an older coordinator, the older client with both, under
# either coordinator a job whose two members run on workers of both versions, and
# an upgrade of the coordinator and then of the worker while a job of two members
# trains, which must end as the same job. Builds REVISION in a work tree of its own, which
# takes as long as a first build unless Bazel has a --disk_cache.
# Exit status 1: a step failed, and its logs are named.
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
  -h | --help)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    exit 0
    ;;
esac
older=${1:-HEAD~1}
if [ ! -d "$older" ] &&
  ! git rev-parse --verify --quiet "$older^{commit}" >/dev/null; then
  echo "upgrade.sh: neither a commit nor a folder: $older" >&2
  exit 2
fi

work=$(mktemp -d)
pids=()
finish() {
  local code=$?
  for pid in ${pids[@]+"${pids[@]}"}; do kill -9 "$pid" 2>/dev/null || true; done
  # Members outlive a daemon that was killed: those whose program is here.
  for member in /proc/[0-9]*; do
    [[ "$(readlink "$member/exe" 2>/dev/null)" == "$work"/*/comera-trainer* ]] &&
      kill -9 "${member#/proc/}" 2>/dev/null || true
  done
  git worktree remove --force "$work/tree" 2>/dev/null || true
  if [ "$code" = 0 ]; then rm -rf "$work"; else
    echo "upgrade.sh: FAILED; logs: $work" >&2
  fi
}
trap finish EXIT

# build FOLDER: builds this checkout and copies its programs.
build() {
  bazel build -c opt --noshow_progress --ui_event_filters=-info \
    //client:comera //server:comera-server //worker:comera-worker \
    //worker/trainer:comera-trainer >&2
  mkdir -p "$1"
  cp -L bazel-bin/client/comera bazel-bin/server/comera-server \
    bazel-bin/worker/comera-worker bazel-bin/worker/trainer/comera-trainer "$1"
}

if [ -d "$older" ]; then
  cp -R "$older" "$work/old"
else
  echo "building $(git log -1 --format='%h %s' "$older") ..."
  git worktree add --quiet --detach "$work/tree" "$older"
  (cd "$work/tree" && build "$work/old" && bazel shutdown)
fi
build "$work/new"

# Some C-like text that a small model can learn.
mkdir "$work/corpus"
for file in $(seq 40); do
  for line in $(seq 40); do
    echo "int read_buffer_$((line * file % 7))(int socket) { return socket; }"
  done >"$work/corpus/$file.c"
done
cat >"$work/job.yaml" <<END
display_name: upgrade
model: {family: masked_lm, layers: 1, hidden: 32, ffn: 64, heads: 2}
data:
  code_directory: {roots: ["$work/corpus"], globs: ["*.c"]}
  tokenizer: {kind: byte_bpe, train_vocabulary_size: 300}
  max_length: 32
objective:
  early: {steps: 400}
training: {batch_size: 8, report_every_steps: 5, validate_every_steps: 200}
resources: {device: cpu, processes: 2, threads_per_process: 1}
checkpoint: {every_steps: 20}
END

# start_server VERSION FOLDER, start_worker VERSION FOLDER [NAME SLOTS]: set
# $server and $worker to pids; the coordinator keeps its address when it is
# started again.
start_server() {
  local listen=127.0.0.1:0
  [ -s "$2/port" ] && listen=$(cat "$2/port") && rm "$2/port"
  mkdir -p "$2"
  "$work/$1/comera-server" --listen="$listen" --http_listen=none \
    --data_dir="$2/server" --port_file="$2/port" >>"$2/server.log" 2>&1 &
  server=$!
  pids+=("$server")
  for _ in $(seq 300); do
    [ -s "$2/port" ] && break
    kill -0 "$server" || fail "the $1 coordinator does not start" "$2"
    sleep 0.1
  done
  address=$(cat "$2/port")
}
start_worker() {
  "$work/$1/comera-worker" --server="$address" --name="${3:-w}" \
    --slots="${4:-2}" --gpus=none --data_dir="$2/worker${3:-}" \
    --data_root="$work/corpus" --trainer="$work/$1/comera-trainer" \
    >>"$2/worker${3:-}.log" 2>&1 &
  worker=$!
  pids+=("$worker")
}
stop() {
  kill -TERM "$1"
  wait "$1" 2>/dev/null || true
}
fail() {
  echo "upgrade.sh: $1" >&2
  tail -n 5 "$2"/*.log >&2
  exit 1
}
# comera VERSION ARGUMENT...: that version's client.
comera() {
  local version=$1
  shift
  timeout 120 "$work/$version/comera" "$@" --server "$address" \
    2>>"$work/client.log"
}
# expect FOLDER JOB PATTERN: what the newer client says of the job.
expect() {
  comera new get "$2" -o json >"$1/job.json"
  grep -Eq "$3" "$1/job.json" || fail "$2 is not $3; see $1/job.json" "$1"
}

# together SERVER WORKER CLIENT: one job from its submission to its end.
together() {
  local folder="$work/$1-server-$2-worker-$3-client"
  start_server "$1" "$folder"
  start_worker "$2" "$folder"
  local job
  job=$(comera "$3" submit "$work/job.yaml")
  comera "$3" watch "$job" >"$folder/watch.txt" 2>&1 ||
    fail "$job did not succeed" "$folder"
  expect "$folder" "$job" '"state": *"SUCCEEDED"'
  expect "$folder" "$job" '"attempt": *"?1"?,'
  stop "$worker"
  stop "$server"
  echo "passed: $1 coordinator, $2 worker, $3 client"
}
together new old old
together new old new
together old new old
together old new new

# A gang across an upgrade of the workers, one machine at a time. Its members
# work together, or an incident of the job says that the versions do not.
mixed_gang() {
  local folder="$work/mixed-gang-$1-server" job first
  start_server "$1" "$folder"
  start_worker old "$folder" w-old 1
  first=$worker
  start_worker new "$folder" w-new 1
  job=$(comera new submit "$work/job.yaml")
  comera new watch "$job" >"$folder/watch.txt" 2>&1 || true
  comera new get "$job" -o json >"$folder/job.json"
  if grep -q '"state": *"SUCCEEDED"' "$folder/job.json"; then
    expect "$folder" "$job" '"attempt": *"?1"?,'
    echo "passed: $1 coordinator, members of both versions trained together"
  elif grep -Eq '"(message|reason)": *".*version' "$folder/job.json"; then
    echo "passed: $1 coordinator, members of both versions refused one another:"
    grep -Em1 '"(message|reason)": *".*version' "$folder/job.json"
  else
    fail "$job neither succeeded nor names the versions; see $folder" "$folder"
  fi
  stop "$first"
  stop "$worker"
  stop "$server"
}
mixed_gang new
mixed_gang old

# An upgrade under a job: the coordinator first, then the worker.
folder="$work/upgrade"
start_server old "$folder"
start_worker old "$folder"
job=$(comera old submit "$work/job.yaml" --set objective.early.steps=4000)
for _ in $(seq 600); do
  comera old get "$job" -o json >"$folder/job.json"
  grep -q '"state": *"RUNNING"' "$folder/job.json" &&
    grep -q '"checkpoints"' "$folder/job.json" && break
  sleep 0.1
done
stop "$server"
start_server new "$folder"
for _ in $(seq 300); do
  comera new get "$job" -o json >"$folder/job.json"
  grep -q '"state": *"RUNNING"' "$folder/job.json" && break
  sleep 0.1
done
expect "$folder" "$job" '"state": *"RUNNING"'
expect "$folder" "$job" '"attempt": *"?1"?,'
echo "passed: the coordinator was replaced, and the attempt trains on"
stop "$worker"
start_worker new "$folder"
comera new watch "$job" >"$folder/watch.txt" 2>&1 ||
  fail "$job did not succeed" "$folder"
expect "$folder" "$job" '"state": *"SUCCEEDED"'
stop "$worker"
stop "$server"
# A worker's members go on under its successor, unless its version is older than
# that.
attempt=$(grep -Eom1 '"attempt": *"?[0-9]+' "$folder/job.json" | grep -Eo '[0-9]+$')
echo "passed: the worker was replaced, and the job succeeded in attempt $attempt"
