#!/usr/bin/env bash
# Installs the Debian packages into a clean Debian 12, boots that (its own
# systemd, processes and network), and looks at what the services do there:
# hardened units, control groups, a job, a killed coordinator, a restarted and a
# drained worker, members with a user of their own, removal and purge. Needs root,
# mmdebstrap, systemd-nspawn, debhelper and the Debian mirror that apt uses; five
# minutes, most of them the mirror's. Not part of tests/run.sh.
#
#   tests/deploy/clean_root.sh --programs=FOLDER   (comera-server, ...)
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
programs=${1#--programs=}
work=$(mktemp -d /var/tmp/clean_root.XXXXXX)
nspawn="" init=""
# The container's init knows SIGRTMIN+4 as the order to power off.
clean() {
  [ -z "$init" ] || kill -s SIGRTMIN+4 "$init" 2>/dev/null || true
  [ -z "$nspawn" ] || wait_for 60 gone "$nspawn" || kill -9 "$nspawn" || true
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $*" >&2
  [ -z "$init" ] || inside journalctl --no-pager -n 40 >&2 || true
  exit 1
}
say() { echo "$SECONDS s: $*"; }

deploy/debian/build.sh --out="$work/debs" --programs="$programs" >/dev/null
say "packages built"
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,iproute2 \
  --setup-hook="mkdir -p \"\$1/debs\"" --setup-hook="sync-in $work/debs /debs" \
  --customize-hook="chroot \"\$1\" sh -c 'apt-get install -y -q /debs/*.deb'" \
  bookworm "$work/root" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  fail "cannot install"
}
say "a clean Debian with the packages"
root=$work/root
for user in comera comera-worker; do
  grep -q "^$user:" "$root/etc/passwd" || fail "no user $user"
  [ "$(stat -c %a "$root/var/lib/$user")" = 700 ] || fail "$user's folder"
done

systemd-nspawn --directory="$root" --boot --private-network --register=no \
  --keep-unit --console=pipe >"$work/boot.log" 2>&1 &
nspawn=$!
inside() { nsenter -t "$init" -m -p -n -u -i "$@"; }
# Its first child only prepares the second, which is the container's init.
booted() {
  init=$(cut -d' ' -f1 "/proc/$nspawn/task/$nspawn/children")
  [ -n "$init" ] && inside systemctl is-system-running |
    grep 'running\|degraded' >/dev/null
}
wait_for 120 booted || fail "does not boot: $(cat "$work/boot.log")"
inside ip link set lo up
say "booted"
for unit in comera-server comera-worker; do
  [ "$(inside systemctl is-enabled $unit)" = disabled ] || fail "$unit: enabled"
  [ "$(inside systemctl is-active $unit)" = inactive ] || fail "$unit: started"
done

inside systemctl start comera-server comera-worker
connected() {
  inside comera workers -o json | grep '"connected": *true' >/dev/null
}
wait_for 30 connected || fail "no worker"
inside journalctl --no-pager -u comera-worker |
  grep "cgroups for members" >/dev/null ||
  fail "no control groups for members"
# The first of the members, by its process id.
first_member() {
  # shellcheck disable=SC2016
  inside sh -c 'grep -l -x comera-trainer /proc/[0-9]*/comm | head -n 1' |
    cut -d/ -f3
}
# Whether a daemon that was started later goes on with the member.
adopted() {
  inside journalctl --no-pager -u comera-worker |
    grep "member adopted .*pid=$1 alive=1" >/dev/null
}
submit() {
  inside sh -c 'cat > /tmp/job.yaml; comera submit /tmp/job.yaml 2>/dev/null'
}
state() { inside comera get "$1" -o json | sed -n 's/^ "state": "\(.*\)",/\1/p'; }
state_is() { [ "$(state "$1")" = "$2" ]; }
job=$(small_job 500 | submit)
wait_for 60 state_is "$job" SUCCEEDED || fail "the job: $(state "$job")"
say "a job trained under the units"

job=$(small_job 2000000 | submit)
wait_for 60 state_is "$job" RUNNING || fail "the long job: $(state "$job")"
# shellcheck disable=SC2016
inside sh -c 'kill -9 "$(systemctl show -p MainPID --value comera-server)"'
wait_for 30 state_is "$job" RUNNING || fail "after a kill -9: $(state "$job")"
member=$(first_member)
[ -n "$member" ] || fail "the long job has no member"
inside systemctl restart comera-worker
wait_for 30 adopted "$member" || fail "a restart ends the worker's members"
sleep 3
[ "$(first_member)" = "$member" ] || fail "the worker's next daemon ends members"
state_is "$job" RUNNING || fail "after the restart: $(state "$job")"
worker=$(inside hostname)
inside comera drain "$worker" >/dev/null
wait_for 60 state_is "$job" QUEUED || fail "after the drain: $(state "$job")"
[ -z "$(first_member)" ] || fail "a member is left"
inside systemctl stop comera-worker
say "killed coordinator, restarted worker: the job went on; it left by a drain"

inside comera cancel "$job" >/dev/null
inside comera drain --undo "$worker" >/dev/null
inside mv /var/lib/comera-worker /var/lib/comera-worker.before
inside install -D -m 644 -t /etc/systemd/system/comera-worker.service.d \
  /usr/share/comera/systemd/member-user.conf
inside systemctl daemon-reload
inside systemctl start comera-worker
wait_for 30 connected || fail "no worker whose members have their own user"
job=$(small_job 2000000 | submit)
wait_for 60 state_is "$job" RUNNING || fail "its job: $(state "$job")"
member=$(first_member)
[ "$(inside stat -c %U "/proc/$member")" = comera-member ] ||
  fail "a member runs as $(inside stat -c %U "/proc/$member")"
inside grep -q '^CapPrm:[[:space:]]*0*$' "/proc/$member/status" ||
  fail "a member has $(inside grep Cap "/proc/$member/status")"
# shellcheck disable=SC2016
inside sh -c 'kill -9 "$(systemctl show -p MainPID --value comera-worker)"'
wait_for 30 adopted "$member" || fail "its successor does not know the member"
sleep 3
[ "$(first_member)" = "$member" ] || fail "its successor ends the member"
state_is "$job" RUNNING || fail "after kill -9 of the daemon: $(state "$job")"
inside comera cancel "$job" >/dev/null
wait_for 60 state_is "$job" CANCELLED || fail "not cancelled: $(state "$job")"
[ -z "$(first_member)" ] || fail "a cancelled member is left"
job=$(small_job 500 | submit)
wait_for 60 state_is "$job" SUCCEEDED || fail "as comera-member: $(state "$job")"
inside systemctl stop comera-worker
say "members ran as a user of their own"

inside sh -c 'echo "# mine" >> /etc/comera/server.env
  dpkg -i --force-confdef /debs/comera-server_*.deb' >"$work/log" 2>&1 ||
  fail "installs no second time: $(cat "$work/log")"
grep -q "# mine" "$root/etc/comera/server.env" || fail "the configuration is lost"
[ "$(inside systemctl is-active comera-server)" = active ] ||
  fail "an upgrade stops the coordinator"
# The package comera asks for the others.
inside dpkg --remove comera comera-server >"$work/log" 2>&1 ||
  fail "cannot be removed: $(cat "$work/log")"
[ "$(inside systemctl is-active comera-server)" = inactive ] ||
  fail "runs after its removal"
[ -e "$root/etc/comera/server.env" ] || fail "removal takes the configuration"
inside dpkg --purge comera comera-server comera-worker comera-client \
  >"$work/log" 2>&1 || fail "cannot be purged: $(cat "$work/log")"
[ ! -e "$root/etc/comera" ] || fail "purge leaves $(ls "$root/etc/comera")"
[ -e "$root/var/lib/comera/jobs.sqlite" ] || fail "purge takes the jobs"
say "removed and purged; the jobs are still there"
