#!/usr/bin/env bash
# deploy/nftables and Slurm's prolog and epilog, with real nftables in network
# namespaces: only machines of the sets connect to the ports of members. Then,
# where Slurm is installed, a real allocation fills and empties the sets.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
# shellcheck source=tests/deploy/slurm_cluster.sh
source tests/deploy/slurm_cluster.sh
export PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" != 0 ] || ! command -v nft >/dev/null ||
  ! command -v ip >/dev/null; then
  echo "SKIPPED: it needs root, nft and ip"
  exit 0
fi
work=$(mktemp -d /tmp/fence.XXXXXX)
prefix=fence-$$
listener=""
clean() {
  [ -z "$listener" ] || kill "$listener" 2>/dev/null || true
  stop_slurm
  for name in member peer stranger switch; do
    ip netns del "$prefix-$name" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $*" >&2
  on member nft list table inet comera >&2 || true
  exit 1
}
say() { echo "$SECONDS s: $*"; }
on() { ip netns exec "$prefix-$1" "${@:2}"; }

# Three machines on a switch.
if ! ip netns add "$prefix-switch" 2>"$work/output"; then
  echo "SKIPPED: no network namespaces: $(cat "$work/output")"
  exit 0
fi
on switch ip link add switch type bridge
on switch ip link set switch up
number=0
for name in member peer stranger; do
  number=$((number + 1))
  ip netns add "$prefix-$name"
  on switch ip link add "port$number" type veth peer name eth0 \
    netns "$prefix-$name"
  on switch ip link set "port$number" master switch up
  on "$name" ip addr add "10.78.0.$number/24" dev eth0
  on "$name" ip link set lo up
  on "$name" ip link set eth0 up
done
member=10.78.0.1 peer=10.78.0.2

# Two ports that answer each line: one of the range, one outside it.
cat >"$work/listen.py" <<'PYTHON'
import selectors, socket, sys
ready = selectors.DefaultSelector()
for port in (40000, 2222):
    one = socket.create_server(("0.0.0.0", port))
    ready.register(one, selectors.EVENT_READ, "port")
open(sys.argv[1], "w").close()
while True:
    for key, _ in ready.select():
        if key.data == "port":
            ready.register(key.fileobj.accept()[0], selectors.EVENT_READ, "")
            continue
        data = key.fileobj.recv(100)
        if data:
            key.fileobj.sendall(data)
        else:
            ready.unregister(key.fileobj)
PYTHON
on member /usr/bin/python3 "$work/listen.py" "$work/listening" &
listener=$!
wait_for 20 test -e "$work/listening" || fail "no listener"
# reaches FROM PORT [SECONDS]: within so many, or within more than a busy machine
# takes.
reaches() {
  on "$1" /usr/bin/python3 -c "
import socket, sys
one = socket.create_connection(('$member', $2), timeout=${3:-30})
one.sendall(b'x')
sys.exit(one.recv(1) != b'x')" 2>/dev/null
}

# Slurm's command to expand a list of nodes, which are addresses here.
mkdir "$work/bin"
cat >"$work/bin/scontrol" <<'SCRIPT'
#!/bin/sh
[ "$1 $2" = "show hostnames" ] && echo "$3" | tr ',' '\n'
SCRIPT
chmod +x "$work/bin/scontrol"
# slurm SCRIPT JOB NODES
slurm() {
  on member env PATH="$work/bin:$PATH" COMERA_PEERS="$work/peers" \
    SLURM_JOB_ID="$2" SLURM_JOB_NODELIST="${3:-}" "deploy/slurm/$1.sh"
}

reaches stranger 40000 || fail "without the table a stranger is shut out"
if slurm prolog 7 "$peer" 2>"$work/output"; then fail "no table, no failure"; fi
grep -q "load deploy/nftables/comera.nft" "$work/output" ||
  fail "says: $(cat "$work/output")"
rm -r "$work/peers"

on member nft -f deploy/nftables/comera.nft || fail "the table does not load"
for name in peer stranger; do
  ! reaches "$name" 40000 1 || fail "$name reaches a member"
  reaches "$name" 2222 || fail "$name does not reach another port"
done
reaches member 40000 || fail "the machine does not reach itself"
say "nobody else reaches a member"

slurm prolog 7 "$member,$peer" || fail "prolog"
slurm prolog 8 "$member,$peer" || fail "prolog of a second allocation"
reaches peer 40000 || fail "a node of the allocation is shut out"
! reaches stranger 40000 1 || fail "a stranger reaches a member"
slurm epilog 7 || fail "epilog"
reaches peer 40000 || fail "the nodes of the second allocation are shut out"
# A connection outlives the allocation.
on peer /usr/bin/python3 -c "
import socket, sys
one = socket.create_connection(('$member', 40000), timeout=30)
print('open', flush=True)
sys.stdin.readline()
one.sendall(b'x')
print(one.recv(1).decode(), flush=True)" \
  > >(cat >"$work/kept") < <(while [ ! -e "$work/go" ]; do sleep 0.05; done; echo) &
kept=$!
wait_for 20 grep -q open "$work/kept" || fail "no connection to keep"
slurm epilog 8 || fail "second epilog"
! reaches peer 40000 1 || fail "a node of no allocation reaches a member"
touch "$work/go"
wait "$kept" || fail "an open connection was cut"
wait_for 20 grep -q x "$work/kept" || fail "an open connection carries nothing"
slurm epilog 8 || fail "an epilog that comes twice"
if slurm prolog 9 no-such-node 2>"$work/output"; then
  fail "a node without address is no failure"
fi
grep -q "node no-such-node has no address" "$work/output" ||
  fail "says: $(cat "$work/output")"
if slurm prolog "7; true" "$peer" 2>/dev/null; then fail "took a bad job id"; fi

on member nft add element inet comera peers_v4 "{ 10.78.0.0/29 }"
{ reaches peer 40000 && reaches stranger 40000; } || fail "the set of peers is void"
say "allocations and peers reach it"

for program in munged slurmctld slurmd; do
  if ! command -v "/usr/sbin/$program" >/dev/null; then
    echo "SKIPPED: the part with Slurm, because $program is not installed"
    exit 0
  fi
done
# All of Slurm lives on the member's loopback, and its nodes too: the sets tell
# what the prolog was given.
cat >"$work/slurm.sh" <<SCRIPT
set -euo pipefail
source tests/deploy/small_cluster.sh
source tests/deploy/slurm_cluster.sh
trap stop_slurm EXIT
slurm_more_conf="Prolog=$work/prolog
Epilog=$work/epilog
PrologFlags=Alloc"
start_slurm "$work/slurm" || exit 1
job=\$(sbatch --parsable --nodes=2 --chdir="$work" --output="$work/out" \
  --wrap "while [ ! -e $work/end ]; do sleep 0.05; done")
has() { nft list set inet comera allocated_v4 | grep -q 127.0.0.1; }
has_not() { ! has; }
wait_for 60 has || { echo "the prolog gave no node"; exit 1; }
[ -s "$work/peers/\$job" ] || { echo "no file for job \$job"; exit 1; }
touch "$work/end"
wait_for 60 has_not || { echo "the epilog took no node"; exit 1; }
SCRIPT
for script in prolog epilog; do
  printf '#!/bin/sh\nCOMERA_PEERS=%s SLURM_CONF=%s exec %s\n' "$work/peers" \
    "$work/slurm/slurm.conf" "$PWD/deploy/slurm/$script.sh" >"$work/$script"
  chmod +x "$work/$script"
done
on member bash "$work/slurm.sh" || {
  tail -n 20 "$work"/slurm/*.log >&2 || true
  fail "Slurm's allocation"
}
say "an allocation of Slurm comes and goes"
