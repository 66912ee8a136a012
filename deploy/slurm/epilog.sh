#!/usr/bin/env bash
# Slurm's Epilog: the nodes of an allocation that has ended are no peers of this
# node any more, unless another allocation has them too (see prolog.sh).
set -uo pipefail
# shellcheck source=deploy/slurm/peers.sh
source "$(dirname "$(readlink -f "$0")")/peers.sh"

rm -f "$peers/$SLURM_JOB_ID"
load_peers
