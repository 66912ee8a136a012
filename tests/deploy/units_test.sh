#!/usr/bin/env bash
# The systemd units: no line that systemd would pass over, no less hardening
# than was reached, and flags that the programs take.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/units.XXXXXX")
trap 'rm -rf "$work"' EXIT
units=deploy/systemd
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# The unit's flags with those of its configuration file, and with those that
# the file shows as an example, split as systemd does it.
gather_programs "$work/bin"
for name in server worker; do
  for lines in '/^COMERA_/p' '/^# COMERA_/,/"$/s/^# *//p'; do
    sed -n "$lines" "$units/$name.env" >"$work/env"
    line=$(sed -n "s|^ExecStart=/usr/bin/||p" "$units/comera-$name.service")
    (
      # shellcheck disable=SC1091
      source "$work/env"
      eval "line=\"$line\""
      # shellcheck disable=SC2086,SC2154
      "$work/bin/"${line/\/var\/lib\//$work/} --print-config
    ) >"$work/config" 2>&1 || fail "$name.env: $(cat "$work/config")"
    grep -q "data_dir=$work" "$work/config" || fail "$(cat "$work/config")"
  done
  # The example is the other one.
  case "$name" in
    server) grep -q '^listen=0.0.0.0:7400' "$work/config" ;;
    worker) grep -q '^address=10.0.0.2' "$work/config" ;;
  esac || fail "$name.env: no example in $(cat "$work/config")"
done

if ! command -v systemd-analyze >/dev/null; then
  echo "SKIPPED: systemd-analyze is not installed; flags are as wanted"
  exit 0
fi
system=$work/root/usr/lib/systemd/system
mkdir -p "$system" "$work/root/usr/bin"
cp -L "$units"/*.service "$system/"
cp -r /lib/systemd/system/*.target "$system/"
cp /bin/true "$work/root/usr/bin/comera-server"
cp /bin/true "$work/root/usr/bin/comera-worker"
verify() {
  systemd-analyze verify --root="$work/root" --man=no --recursive-errors=no \
    comera-server.service comera-worker.service >"$work/output" 2>&1 &&
    [ ! -s "$work/output" ]
}
verify || fail "$(cat "$work/output")"
echo "ProtectClok=yes" >>"$system/comera-server.service"
if verify; then fail "a wrong key is not noticed: this test tests nothing"; fi

# exposed_less NAME LIMIT: systemd's own measure of a unit, from 0 (not exposed)
# to 10 (none of its protections).
exposed_less() {
  systemd-analyze security --offline=true --no-pager --root="$work/root" \
    --threshold="${2/./}" "comera-$1.service" >"$work/output" 2>&1 ||
    fail "$1: $(grep -v '✓' "$work/output")"
  sed -n 's/^→ //p' "$work/output"
}
cp -L "$units"/comera-server.service "$system/"
exposed_less server 1.3
exposed_less worker 2.1

# The worker whose members have a user of their own.
mkdir "$system/comera-worker.service.d"
cp -L "$units/member-user.conf" "$system/comera-worker.service.d/"
verify || fail "member-user.conf: $(cat "$work/output")"
exposed_less worker 3.5
line=$(sed -n 's|^ExecStart=/usr/bin/||p' "$units/member-user.conf")
usual=$(sed -n 's|^ExecStart=/usr/bin/||p' "$units/comera-worker.service")
[ "${line/ --member_user=comera-member/}" = "$usual" ] ||
  fail "member-user.conf: has other flags than the unit: $line"
"$work/bin/comera-worker" --help | grep -e "--member_user" >/dev/null ||
  fail "the worker has no --member_user"
