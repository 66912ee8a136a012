#!/usr/bin/env bash
# deploy/slurm on a real Slurm that this test starts: workers of two nodes train
# a gang to its end; notices and scancel end them with a checkpoint, and the
# next allocation goes on from there; a coordinator inside the allocation.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
# shellcheck source=tests/deploy/slurm_cluster.sh
source tests/deploy/slurm_cluster.sh
for program in munged slurmctld slurmd; do
  if ! command -v "/usr/sbin/$program" >/dev/null; then
    echo "SKIPPED: $program is not installed"
    exit 0
  fi
done
# Sockets have short names, and munged wants folders that others cannot write;
# the sticky /tmp will do.
work=$(mktemp -d /tmp/slurm.XXXXXX)
server=""
clean() {
  scancel --me >/dev/null 2>&1 || true
  wait_for 40 queue_empty || true
  [ -z "$server" ] || stop "$server"
  stop_slurm
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 15 "$work"/{server.log,[0-9]*.out,slurmctld.log,n1.log,output} >&2 ||
    true
  exit 1
}
say() { echo "$SECONDS s: $*"; }

queue_empty() { [ -z "$(squeue -h 2>&1)" ]; }
# Daemons and ranks of ours that still run.
ours() {
  local folder
  for folder in /proc/[0-9]*; do
    if grep -qaF "$work/" "$folder/cmdline" 2>/dev/null &&
      grep -q '^comera-' "$folder/comm" 2>/dev/null; then
      echo "${folder#/proc/} $(tr '\0' ' ' <"$folder/cmdline" 2>/dev/null)"
    fi
  done
}
# field EXPRESSION COMMAND...: of comera's JSON.
field() {
  local expression=$1
  shift
  "$work/bin/comera" "$@" -o json 2>>"$work/output" | /usr/bin/python3 -c "
import json, sys
it = json.load(sys.stdin)
print($expression)"
}
state_is() { [ "$(field 'it["state"]' get "$1")" = "$2" ]; }
trained() { [ "$(field 'int(it.get("progress", {}).get("step", 0))' get "$1")" -ge "$2" ]; }
workers() {
  field 'sum(w.get("connected", False) for w in it.get("workers", []))' workers
}
has_workers() { [ "$(workers)" = "$1" ]; }
allocate() {  # allocate FLAG...: the job's number
  sbatch --parsable --nodes=2 --cpus-per-task=2 --chdir="$work" \
    --output="$work/%j.out" "$test_root/deploy/slurm/comera_workers.sh" \
    --bin="$work/bin" --scratch="$work/scratch" "$@"
}
submit() { field 'it["name"]' submit "$1"; }

if deploy/slurm/comera_workers.sh 2>"$work/output"; then
  fail "runs outside of Slurm"
fi
grep -q sbatch "$work/output" || fail "says nothing of sbatch"

gather_programs "$work/bin"
mkdir "$work/scratch"
export HOME=$work/home
small_job 500 2 >"$work/short.yaml"
small_job 2000000 2 >"$work/long.yaml"
start_slurm "$work" || fail "Slurm does not start"
say "Slurm runs"

"$work/bin/comera-server" --listen=127.0.0.1:0 --data_dir="$work/coordinator" \
  --port_file="$work/port" >"$work/server.log" 2>&1 &
server=$!
wait_for 30 test -s "$work/port" || fail "the coordinator does not start"
COMERA_SERVER=$(cat "$work/port")
export COMERA_SERVER
flags=("--server=$COMERA_SERVER" "--checkpoint_store=$work/checkpoints")

allocation=$(allocate "${flags[@]}")
wait_for 60 has_workers 2 || fail "no two workers: $(workers)"
job=$(submit "$work/short.yaml")
wait_for 60 state_is "$job" SUCCEEDED || fail "the gang does not train to its end"
say "a gang of two nodes trained to its end"

# What --signal=B:TERM does before the time limit.
job=$(submit "$work/long.yaml")
wait_for 60 trained "$job" 200 || fail "the long job does not train"
scancel --batch --signal=TERM "$allocation"
wait_for 60 queue_empty || fail "the allocation does not end: $(squeue)"
[ "$(ours | wc -l)" = 1 ] || fail "left behind: $(ours)"
[ -z "$(ls "$work/scratch")" ] || fail "left behind: $(ls "$work/scratch")"
wait_for 20 state_is "$job" QUEUED ||
  fail "the job is $(field 'it["state"]' get "$job")"
step=$(field 'int(it["progress"]["step"])' get "$job")
say "after a notice: job queued again at step $step, nothing left"

allocation=$(allocate "${flags[@]}")
wait_for 60 state_is "$job" RUNNING || fail "the job does not go on"
wait_for 60 trained "$job" "$((step + 100))" || fail "it does not train on"
scancel "$allocation"
wait_for 60 queue_empty || fail "scancel does not end it: $(squeue)"
[ "$(ours | wc -l)" = 1 ] || fail "left behind: $(ours)"
wait_for 20 state_is "$job" QUEUED ||
  fail "the job is $(field 'it["state"]' get "$job")"
say "after scancel: the same, at step $(field 'int(it["progress"]["step"])' get "$job")"
"$work/bin/comera" cancel "$job" >>"$work/output" 2>&1
stop "$server"
server=""

# A coordinator inside, with mutual TLS.
unset COMERA_SERVER
allocation=$(allocate --coordinator="$work/inside")
wait_for 60 test -s "$work/inside/env" || fail "no coordinator inside"
# shellcheck disable=SC1091
source "$work/inside/env"
[ "$(stat -c %a "$work/inside")" = 700 ] || fail "$work/inside is open"
wait_for 60 has_workers 2 || fail "no two workers inside"
job=$(submit "$work/short.yaml")
wait_for 60 state_is "$job" SUCCEEDED || fail "nothing trains inside"
job=$(submit "$work/long.yaml")
wait_for 60 trained "$job" 200 || fail "the long job does not train inside"
scancel "$allocation"
wait_for 60 queue_empty || fail "scancel does not end it: $(squeue)"
[ -z "$(ours)" ] || fail "left behind: $(ours)"
[ -z "$(ls "$work/scratch")" ] || fail "left behind: $(ls "$work/scratch")"
say "coordinator inside: trained; scancel left nothing"

allocation=$(allocate --coordinator="$work/inside")
wait_for 60 test -s "$work/inside/env" || fail "no second coordinator inside"
# shellcheck disable=SC1091
source "$work/inside/env"
wait_for 90 state_is "$job" RUNNING || fail "the job does not go on inside"
wait_for 60 trained "$job" 300 || fail "the job does not train on inside"
"$work/bin/comera" cancel "$job" >>"$work/output" 2>&1
scancel --batch --signal=TERM "$allocation"
wait_for 60 queue_empty || fail "the last allocation does not end: $(squeue)"
[ -z "$(ours)" ] || fail "left behind: $(ours)"
[ ! -e "$work/inside/env" ] || fail "env names a coordinator that is gone"
say "the next allocation went on with its jobs"
