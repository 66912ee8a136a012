#!/usr/bin/env bash
# Builds the container images by deploy/container/build.sh and trains a job with
# them, each in a container of its own. Needs root, buildah, mmdebstrap,
# debhelper and the Debian mirror that apt uses; five minutes. Not part of
# tests/run.sh.
#
#   tests/deploy/containers.sh --programs=FOLDER   (comera-server, ...)
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
programs=${1#--programs=}
work=$(mktemp -d /var/tmp/containers.XXXXXX)
export BUILDAH_ISOLATION=chroot
containers=() pids=()
clean() {
  local pid children
  for pid in "${pids[@]}"; do
    # buildah, its helper, the program.
    read -ra children < <(pgrep -P "$(pgrep -P "$pid" | head -1)") || true
    stop "${children[@]}" "$pid"
  done
  [ ${#containers[@]} -eq 0 ] || buildah rm "${containers[@]}" >/dev/null
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/*.log >&2
  exit 1
}

deploy/debian/build.sh --out="$work/debs" --programs="$programs" >/dev/null
deploy/container/build.sh --debs="$work/debs" --out="$work/images" \
  --tag=test >"$work/built.log" 2>&1 || fail "does not build"
ls -l "$work/images"
for target in server worker client; do
  buildah inspect --type image --format \
    "$target: user {{.OCIv1.Config.User}}, entry {{.OCIv1.Config.Entrypoint}}" \
    "localhost/comera-$target:test"
done
mapfile -t ports < <(free_ports 2)
# start TARGET ENTRY...: its container on this machine's network. buildah runs
# no entry of its own, and as the image's user.
run() {
  local container=$1
  shift
  buildah run "$container" -- "$@"
}
new() { buildah from "localhost/comera-$1:test"; }
server=$(new server) worker=$(new worker) client=$(new client)
containers=("$server" "$worker" "$client")
run "$server" /usr/bin/comera-server --data_dir=/var/lib/comera \
  --listen="127.0.0.1:${ports[0]}" --http_listen="127.0.0.1:${ports[1]}" \
  >"$work/server.log" 2>&1 &
pids+=($!)
run "$worker" /usr/bin/comera-worker --data_dir=/var/lib/comera --slots=1 \
  --server="127.0.0.1:${ports[0]}" >"$work/worker.log" 2>&1 &
pids+=($!)
comera() { run "$client" /usr/bin/comera --server "127.0.0.1:${ports[0]}" "$@"; }
connected() { comera workers -o json | grep '"connected": *true' >/dev/null; }
wait_for 60 connected || fail "no worker"
small_job 500 >"$work/job.yaml"
buildah copy --quiet "$client" "$work/job.yaml" /job.yaml >/dev/null
job=$(comera submit /job.yaml 2>"$work/client.log") || fail "cannot submit"
comera wait "$job" --timeout 60s >"$work/client.log" 2>&1 || fail "no success"
echo "a job trained with the three images"
