#!/bin/bash
#SBATCH --job-name=comera
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:TERM@120
# Runs a comera worker on every node of a Slurm allocation, and ends with it.
#
#   sbatch --nodes=4 --gpus-per-node=8 --time=12:00:00 comera_workers.sh \
#     --server=train.example.com:7400 --ca=tls/ca/ca.pem \
#     --cert=tls/%n/current/cert.pem --key=tls/%n/current/key.pem \
#     --token_file=worker.token \
#     --checkpoint_store=/shared/comera/checkpoints --data_root=/shared/data
#   sbatch --nodes=2 --cpus-per-task=16 comera_workers.sh \
#     --coordinator=/shared/comera
#
#   --coordinator=DIR  also a coordinator, on the first node. Its state, the
#       workers' checkpoints, an authority and certificates are in DIR, which
#       all nodes share and only this user can read. `source DIR/env` then lets
#       `comera` reach it. A later allocation with the same DIR goes on with
#       the jobs; at a time there is one.
#   --bin=DIR          where the programs are; default: on the PATH
#   --scratch=DIR      for the workers' own files on each node, removed at the
#       end; default: $TMPDIR or /tmp
#   other arguments go to comera-worker, with the node's name for %n. Workers
#       exchange checkpoints at the nodes' addresses: by their certificates
#       (deploy/tls.sh, one for each node), or with --insecure_peers where nobody
#       else can reach that network. Without --gpus and --slots a node offers
#       its GPUs of the allocation, or a slot for each two of its processors.
#       Jobs read files below each --data_root=DIR; without one, all that this
#       user may read if the coordinator is this user's own (--coordinator), and
#       else uploaded datasets only.
#
# Before the time limit (--signal) or with `scancel --batch --signal=TERM JOB`
# the members save a checkpoint and their jobs are queued again; that is waited
# for. `scancel JOB` does it too, within the cluster's KillWait.
set -uo pipefail

coordinator="" bin="" scratch=${TMPDIR:-/tmp} flags=()
for argument; do
  case "$argument" in
    --coordinator=?*) coordinator=${argument#*=} ;;
    --bin=?*) bin=${argument#*=} ;;
    --scratch=?*) scratch=${argument#*=} ;;
    *) flags+=("$argument") ;;
  esac
done
fail() {
  echo "comera_workers.sh: $*" >&2
  exit 1
}
[ -n "${SLURM_JOB_ID:-}" ] || fail "start it with sbatch (see its first lines)"
[ -z "$bin" ] || export PATH=$bin:$PATH
command -v comera-worker >/dev/null || fail "no comera-worker on the PATH; --bin"

# address NODE: prints the address at which Slurm itself reaches it.
address() { scontrol show node -o "$1" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p'; }

# worker SCRATCH FLAG...: runs on each node.
# shellcheck disable=SC2317
worker() {
  local data own pid="" status stop=0
  # Nobody else can have made this folder beforehand.
  mkdir -p "$1"
  data=$(mktemp -d "$1/comera-$SLURM_JOB_ID-$SLURMD_NODENAME.XXXXXX") || return
  shift
  own=$(tr '[:upper:]_.' '[:lower:]--' <<<"$SLURMD_NODENAME")
  set -- --name="${own:0:50}-$SLURM_JOB_ID" --data_dir="$data" "$@"
  case " $* " in
    *" --slots="* | *" --gpus="*) ;;
    *) [ -n "${CUDA_VISIBLE_DEVICES:-}" ] ||
         set -- "$@" --slots=$(((SLURM_CPUS_ON_NODE + 1) / 2)) ;;
  esac
  case " $* " in
    *" --address="*) ;;
    *) set -- "$@" --address="$(address "$SLURMD_NODENAME")" ;;
  esac
  set -- "${@//%n/$SLURMD_NODENAME}"
  # Slurm signals the shell and the worker, or only the shell.
  trap 'stop=1; [ -z "$pid" ] || kill "$pid" 2>/dev/null' TERM INT
  # Slurm ends all processes of the allocation with it.
  comera-worker --member_lease=0 "$@" &
  pid=$!
  [ "$stop" = 0 ] || kill "$pid"
  # A signal ends `wait` early.
  while wait "$pid"; status=$?; [ "$status" -gt 128 ] &&
    kill -0 "$pid" 2>/dev/null; do :; done
  rm -rf "$data"
  return "$status"
}

server=""
if [ -n "$coordinator" ]; then
  (umask 077 && mkdir -p "$coordinator") || fail "cannot make $coordinator"
  coordinator=$(cd "$coordinator" && pwd)
  # Slurm runs a copy of this script; beside the script itself is tls.sh.
  script=$(scontrol show job -o "$SLURM_JOB_ID" |
    sed -n 's/.* Command=\([^ ]*\).*/\1/p')
  first=$(address "$SLURMD_NODENAME")
  names=()
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    names+=(--worker="$node,$(address "$node")")
  done
  tls=$coordinator/tls
  me=$(id -un)
  "$(dirname "$script")/../tls.sh" "$tls" --renew "${names[@]}" \
    --server="coordinator,$first" --client="$me" || fail "no certificates"
  rm -f "$coordinator/port" "$coordinator/env"
  # New workers have new names: nobody comes back to be waited for.
  comera-server --listen=0.0.0.0:0 --port_file="$coordinator/port" \
    --data_dir="$coordinator/state" --reattach_grace=5s \
    --tls_cert="$tls/coordinator/current/cert.pem" \
    --tls_key="$tls/coordinator/current/key.pem" \
    --tls_client_ca="$tls/ca/ca.pem" &
  server=$!
  until [ -s "$coordinator/port" ]; do
    kill -0 "$server" 2>/dev/null || fail "the coordinator does not start"
    sleep 0.2
  done
  port=$(sed 's/.*://' "$coordinator/port")
  cat >"$coordinator/env.new" <<TEXT
export COMERA_SERVER=$first:$port COMERA_CA=$tls/ca/ca.pem
export COMERA_CERT=$tls/$me/current/cert.pem
export COMERA_KEY=$tls/$me/current/key.pem
TEXT
  mv "$coordinator/env.new" "$coordinator/env"
  flags+=(--server="$first:$port" --ca="$tls/ca/ca.pem"
    --cert="$tls/%n/current/cert.pem" --key="$tls/%n/current/key.pem"
    --checkpoint_store="$coordinator/checkpoints")
  # Only this user has a certificate for it.
  case " ${flags[*]} " in
    *" --data_root="* | *" --data_root "*) ;;
    *) flags+=(--data_root=/) ;;
  esac
fi

# srun itself would kill the workers at once.
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM INT
srun --kill-on-bad-exit=0 bash -c \
  "$(declare -f address worker); worker \"\$@\"" comera "$scratch" \
  "${flags[@]}" &
workers=$!
while wait "$workers"; status=$?; [ "$status" -gt 128 ] &&
  kill -0 "$workers" 2>/dev/null; do :; done
# Last: the workers have told it what they saved.
if [ -n "$server" ]; then
  rm -f "$coordinator/env"
  kill "$server" 2>/dev/null
  wait "$server"
fi
exit "$status"
