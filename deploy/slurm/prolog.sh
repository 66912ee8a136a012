#!/usr/bin/env bash
# Slurm's Prolog: lets the nodes of an allocation connect to members on this
# node, which deploy/nftables/comera.nft keeps from all others. In slurm.conf:
#
#   Prolog=/etc/comera/slurm/prolog.sh
#   Epilog=/etc/comera/slurm/epilog.sh
#   PrologFlags=Alloc
#
# With Alloc it runs on all nodes before the first step starts. It fails, and
# Slurm drains the node, where the table is not loaded or a node has no address.
set -uo pipefail
# shellcheck source=deploy/slurm/peers.sh
source "$(dirname "$(readlink -f "$0")")/peers.sh"

nodes=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-${SLURM_NODELIST:-}}")
[ -n "$nodes" ] || fail "job $SLURM_JOB_ID: Slurm names no nodes"
for node in $nodes; do
  addresses_of "$node" || fail "job $SLURM_JOB_ID: node $node has no address"
done >"$peers/.new" || exit 1
mv "$peers/.new" "$peers/$SLURM_JOB_ID"
load_peers
