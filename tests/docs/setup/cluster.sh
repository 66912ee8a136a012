# shellcheck shell=bash
# A coordinator at its default address and a worker with two CPU slots.
comera-server --data_dir="$HOME/cluster/server" >"$HOME/server.log" 2>&1 &
comera-worker --slots=2 --member_lease=0 --data_dir="$HOME/cluster/worker" --data_root=/ \
  >"$HOME/worker.log" 2>&1 &
docs_wait 'comera workers -o json | grep -q "\"connected\": *true"'
