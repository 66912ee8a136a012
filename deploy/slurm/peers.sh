# shellcheck shell=bash
# For prolog.sh and epilog.sh to source: keeps the nodes of this node's
# allocations, a file for each, and gives them to the table of
# deploy/nftables/comera.nft.

# Slurm gives no PATH.
export PATH=${PATH:+$PATH:}/usr/sbin:/usr/bin:/sbin:/bin
peers=${COMERA_PEERS:-/run/comera/peers}

# Slurm then drains the node: members would be open to others.
fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

[[ ${SLURM_JOB_ID:-} =~ ^[0-9]+$ ]] ||
  fail "SLURM_JOB_ID is \"${SLURM_JOB_ID:-}\", not a number: only Slurm runs this"
umask 077
mkdir -p "$peers" || fail "cannot make $peers"
exec 9>"$peers/.lock"
flock 9 || fail "cannot lock $peers"

# addresses_of NODE: one a line, as names resolve here, else as Slurm has them.
addresses_of() {
  local found
  found=$(getent ahosts "$1" | awk '{ print $1 }' | sort -u)
  [ -n "$found" ] || found=$(scontrol show node -o "$1" |
    sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
  grep -E '^([0-9]+\.){3}[0-9]+$|^[0-9a-fA-F:]+$' <<<"$found"
}

# Makes the table's sets those of all allocations, at once.
load_peers() {
  local all v4 v6
  all=$(find "$peers" -type f -name '[0-9]*' -exec cat {} + | sort -u)
  v4=$(grep -v : <<<"$all" | paste -sd,)
  v6=$(grep : <<<"$all" | paste -sd,)
  nft -f - <<TEXT || fail "no table inet comera: load deploy/nftables/comera.nft"
flush set inet comera allocated_v4
flush set inet comera allocated_v6
${v4:+add element inet comera allocated_v4 { $v4 \}}
${v6:+add element inet comera allocated_v6 { $v6 \}}
TEXT
}
