#!/usr/bin/env bash
# Runs the tests of the S3 client and of the store of checkpoints against Ceph's
# object gateway, on this machine alone: a monitor, a storage daemon that keeps
# its objects in memory, and radosgw over HTTP and over TLS, all on loopback and
# below a folder that goes when the script ends.
#
#   apt-get install --no-install-recommends ceph-mon ceph-osd ceph-common radosgw
#   bazel build //tests/worker/object_store:s3_conformance_test
#   tests/worker/object_store/radosgw.sh \
#       bazel-bin/tests/worker/object_store/s3_conformance_test [FLAGS...]
#
# It is run by hand, because nothing else needs these packages. FLAGS are those
# of the test, e.g. --gtest_filter=... The exit status is that of the tests.
set -euo pipefail

test_binary=$(realpath "$1")
shift
for program in ceph ceph-authtool ceph-mon ceph-osd curl monmaptool openssl \
  radosgw radosgw-admin; do
  command -v "$program" > /dev/null || {
    echo "$0: $program is not installed; see the comment at the top" >&2
    exit 2
  }
done

# The paths of sockets must be short.
work=$(mktemp -d /tmp/radosgw.XXXXXX)
pids=()
finish() {
  local pid
  for ((i = ${#pids[@]} - 1; i >= 0; --i)); do
    pid=${pids[i]}
    kill "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || true
  done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

free_ports() {
  python3 - "$1" << 'PYTHON'
import socket, sys
sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(int(sys.argv[1]))]
print(*[each.getsockname()[1] for each in sockets])
PYTHON
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local until=$((SECONDS + $1))
  shift
  until "$@" > "$work/wait.out" 2>&1; do
    if ((SECONDS >= until)); then
      echo "$0: this did not succeed in time: $*" >&2
      tail -n 5 "$work"/*.out "$work"/*.log >&2
      exit 1
    fi
    sleep 0.2
  done
}

start() {
  local name=$1
  shift
  "$@" > "$work/$name.out" 2>&1 &
  pids+=($!)
}

read -r mon_v2 mon_v1 http tls <<< "$(free_ports 4)"
fsid=$(cat /proc/sys/kernel/random/uuid)
mkdir "$work/mon" "$work/osd"
cat > "$work/ceph.conf" << CONF
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$mon_v2,v1:127.0.0.1:$mon_v1]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
run dir = $work
log file = $work/\$name.log
admin socket = $work/\$name.asok
pid file =
keyring = $work/keyring
mon data = $work/mon
mon data avail crit = 1
osd data = $work/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
mon allow pool size one = true
CONF
export CEPH_CONF=$work/ceph.conf

quietly() {
  "$@" > "$work/quietly.out" 2>&1 || {
    cat "$work/quietly.out" >&2
    exit 1
  }
}
quietly ceph-authtool --create-keyring "$work/keyring" --gen-key -n mon. \
  --cap mon 'allow *'
quietly ceph-authtool "$work/keyring" --gen-key -n client.admin \
  --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
quietly ceph-authtool "$work/keyring" --gen-key -n osd.0 \
  --cap mon 'allow profile osd' --cap osd 'allow *'
quietly ceph-authtool "$work/keyring" --gen-key -n client.rgw.a \
  --cap mon 'allow rw' --cap osd 'allow rwx'
quietly monmaptool --create --fsid "$fsid" \
  --addv a "[v2:127.0.0.1:$mon_v2,v1:127.0.0.1:$mon_v1]" "$work/monmap"
quietly ceph-mon -i a --mkfs --monmap "$work/monmap" --keyring "$work/keyring"
start mon ceph-mon -i a -f
wait_for 300 timeout 60 ceph status
osd=$(cat /proc/sys/kernel/random/uuid)
quietly timeout 300 ceph osd new "$osd" 0
quietly ceph-osd -i 0 --mkfs --osd-uuid "$osd"
start osd ceph-osd -i 0 -f
osd_is_up() { timeout 60 ceph osd stat | grep -q '1 up'; }
wait_for 300 osd_is_up

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
  -subj '/CN=test authority' -keyout "$work/ca.key" -out "$work/ca.crt" \
  2> "$work/openssl.out"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=rgw \
  -keyout "$work/rgw.key" -out "$work/rgw.csr" 2>> "$work/openssl.out"
openssl x509 -req -in "$work/rgw.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" \
  -CAcreateserial -days 2 -out "$work/rgw.crt" \
  -extfile <(echo subjectAltName=IP:127.0.0.1) 2>> "$work/openssl.out"
start rgw radosgw -n client.rgw.a -f --rgw_frontends="beast \
endpoint=127.0.0.1:$http ssl_endpoint=127.0.0.1:$tls \
ssl_certificate=$work/rgw.crt ssl_private_key=$work/rgw.key"
wait_for 300 curl --silent --fail --noproxy '*' "http://127.0.0.1:$http/"

export AWS_ACCESS_KEY_ID=COMERATEST
AWS_SECRET_ACCESS_KEY=$(openssl rand -hex 20)
export AWS_SECRET_ACCESS_KEY
quietly timeout 300 radosgw-admin user create --uid=comera \
  --display-name=comera --access-key="$AWS_ACCESS_KEY_ID" \
  --secret-key="$AWS_SECRET_ACCESS_KEY"
export COMERA_TEST_S3_BUCKET=comera-test
wait_for 300 curl --silent --fail --noproxy '*' --request PUT \
  --header "x-amz-content-sha256: $(sha256sum < /dev/null | cut -d' ' -f1)" \
  --aws-sigv4 aws:amz:us-east-1:s3 \
  --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
  "http://127.0.0.1:$http/$COMERA_TEST_S3_BUCKET"
echo "$(radosgw --version): up after $SECONDS s"

failed=0
for endpoint in "http://127.0.0.1:$http" "https://127.0.0.1:$tls"; do
  echo "== $endpoint"
  COMERA_TEST_S3_ENDPOINT=$endpoint COMERA_TEST_S3_CA=$work/ca.crt \
    "$test_binary" "$@" || failed=1
done
if [[ $failed != 0 ]]; then
  tail -n 30 "$work"/client.rgw.a.log >&2
fi
exit $failed
