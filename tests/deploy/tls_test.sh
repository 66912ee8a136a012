#!/usr/bin/env bash
# deploy/tls.sh: what it makes serves a coordinator, a worker and a client that
# ask each other for certificates; it overwrites nothing; what it renews is
# taken by the running coordinator.
set -euo pipefail
root=$PWD
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/tls.XXXXXX")
pids=()
trap 'stop "${pids[@]}"; rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "FAILED: $*" >&2
  cat server.log worker.log output 2>/dev/null >&2 || true
  exit 1
}
tls() { "$root/deploy/tls.sh" tls "$@" 2>output; }
refused() {  # refused TEXT ARGUMENT...: nothing is changed, TEXT is said
  local before text=$1
  shift
  before=$(find tls -type f -exec sha256sum {} + 2>/dev/null | sort)
  if "$root/deploy/tls.sh" "$@" 2>output; then fail "$* is accepted"; fi
  grep -q -- "$text" output || fail "$*: does not say '$text'"
  [ "$before" = "$(find tls -type f -exec sha256sum {} + 2>/dev/null |
    sort)" ] || fail "$* is refused, and changed something"
}

names=("--server=localhost,127.0.0.1,::1" "--worker=rack1,127.0.0.1"
  --client=alice)
tls "${names[@]}" || fail "makes nothing"
# Only their owner reads keys, and nobody else the folders.
[ -z "$(find tls -name '*.key' ! -perm 600 -o -name key.pem ! -perm 600 \
  -o -type d ! -perm 700)" ] || fail "open to others: $(find tls -ls)"
before=$(find tls -printf '%p %T@ %i\n' | sort)
tls "${names[@]}" || fail "does not run twice"
[ "$before" = "$(find tls -printf '%p %T@ %i\n' | sort)" ] ||
  fail "the second run changed something"

refused "no host name\|neither a host" tls --server='good,b ad'
refused "cannot be a certificate" tls --client=../outside
refused "cannot be a certificate" tls --client=ca
# gRPC itself would refuse it: found only where a leader is followed.
refused "no wildcard" tls '--server=a,*.pods'
refused "no number of days" tls --client=bob --days=0
refused "ends before" tls --client=bob --days=9000
refused "would renew" tls --client=bob --renew=365
refused "unknown argument" tls --servers=x
refused "does not serve" tls --server=localhost,other.example
refused "does not serve" tls --client=rack1 --server=alice
# A half-made authority is not replaced.
mkdir -p half/ca
touch half/ca/ca.key
refused "ca.pem is not" half --client=bob

gather_programs bin
mapfile -t ports < <(free_ports 1)
bin/comera-server --listen="127.0.0.1:${ports[0]}" --data_dir=state \
  --tls_cert=tls/localhost/current/cert.pem \
  --tls_key=tls/localhost/current/key.pem --tls_client_ca=tls/ca/ca.pem \
  --port_file=port >server.log 2>&1 &
pids+=($!)
wait_for 30 test -s port || fail "the coordinator does not start"
bin/comera-worker --server="localhost:${ports[0]}" --slots=1 --data_dir=worker \
  --name=rack1 --address=127.0.0.1 --ca=tls/rack1/current/ca.pem \
  --cert=tls/rack1/current/cert.pem --key=tls/rack1/current/key.pem \
  >worker.log 2>&1 &
pids+=($!)
export HOME=$work/home COMERA_SERVER=localhost:${ports[0]} \
  COMERA_CA=tls/alice/current/ca.pem
if bin/comera --timeout 2s ls >output 2>&1; then fail "calls without a certificate"; fi
export COMERA_CERT=tls/alice/current/cert.pem
export COMERA_KEY=tls/alice/current/key.pem
bin/comera whoami -o json >output || fail "alice is refused"
grep -q alice output || fail "alice is not known by her name"
small_job 200 >job.yaml
job=$(bin/comera submit job.yaml -o json 2>output | /usr/bin/python3 -c \
  'import json, sys; print(json.load(sys.stdin)["name"])')
bin/comera wait "$job" --timeout 60s >output 2>&1 || fail "the job fails"

# Other machines' names are refused, and other authorities' certificates.
"$root/deploy/tls.sh" foreign --client=alice 2>/dev/null
if COMERA_CERT=foreign/alice/current/cert.pem \
  COMERA_KEY=foreign/alice/current/key.pem bin/comera --timeout 2s ls >output 2>&1; then
  fail "a foreign certificate is accepted"
fi
if COMERA_CA=foreign/ca/ca.pem bin/comera --timeout 2s ls >output 2>&1; then
  fail "a foreign coordinator is accepted"
fi

# Renewed under way.
tls --server=localhost,127.0.0.1,::1,later.example --renew ||
  fail "does not renew"
[ "$(readlink tls/localhost/current)" = 2 ] || fail "no second certificate"
cmp -s tls/localhost/1/key.pem tls/localhost/2/key.pem && fail "the same key"
shown() {
  openssl s_client -connect "127.0.0.1:${ports[0]}" -alpn h2 \
    -CAfile tls/ca/ca.pem -cert "$COMERA_CERT" -key "$COMERA_KEY" \
    </dev/null 2>/dev/null | openssl x509 -noout -serial
}
renewed() {
  [ "$(shown)" = "$(openssl x509 -in tls/localhost/2/cert.pem -noout \
    -serial)" ]
}
wait_for 30 renewed || fail "the coordinator shows the old certificate"
bin/comera ls >output 2>&1 || fail "calls fail after the renewal"
# Nothing near its end: nothing is renewed.
tls "${names[@]}" --renew=30 || fail "--renew fails"
[ "$(readlink tls/rack1/current)" = 1 ] || fail "renews what is fresh"
tls --worker=rack1,127.0.0.1 --renew=370 --days=400 || fail "--renew=370 fails"
[ "$(readlink tls/rack1/current)" = 2 ] || fail "does not renew what ends"
echo "all as wanted"
