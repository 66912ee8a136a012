#!/usr/bin/env bash
# deploy/container: the Containerfile keeps the rules that its images promise,
# and the files that collect.sh picks are all that the programs need: in a root
# of these files alone, as another user, they train a job. The images
# themselves: tests/deploy/containers.sh.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/container.XXXXXX")
pids=()
# unshare passes no signal on; with the first process of a namespace all go.
clean() {
  local pid children
  for pid in "${pids[@]}"; do
    read -ra children <"/proc/$pid/task/$pid/children" || true
    stop "${children[@]}"
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/*.log "$work/output" >&2 2>/dev/null || true
  exit 1
}

/usr/bin/python3 - deploy/container/Containerfile <<'PYTHON' || fail "see above"
import re, sys
text = re.sub(r"\\\n", " ", open(sys.argv[1]).read())
stages, problems = {}, []
for line in text.splitlines():
    if not line.strip() or line.startswith("#"):
        continue
    word, rest = line.split(None, 1)
    if word == "FROM":
        base, _, name = rest.split()
        stages[name] = {"base": base, "lines": []}
    elif word == "ARG" and not stages:
        if "=" in rest and not re.search(r"@sha256:[0-9a-f]{64}$", rest):
            problems.append(f"{line}: names an image by what can change")
    else:
        stages[name]["lines"].append((word, rest))
final = ["server", "worker", "client"]
for name in final:
    if name not in stages:
        problems.append(f"no stage {name}")
        continue
    lines = stages[name]["lines"]
    if stages[name]["base"] != "scratch":
        problems.append(f"{name} is not from scratch")
    if not any(w == "USER" and re.match(r"[1-9]\d*:[1-9]\d*$", r)
               for w, r in lines):
        problems.append(f"{name}: no user by number, as runAsNonRoot wants")
    if any(w == "RUN" for w, r in lines):
        problems.append(f"{name} runs something in the image itself")
    entry = [r for w, r in lines if w == "ENTRYPOINT"]
    if len(entry) != 1 or not entry[0].startswith('["/usr/bin/comera'):
        problems.append(f"{name}: its entry is not one program without a shell")
for name, stage in stages.items():
    for word, rest in stage["lines"]:
        if word == "ADD":
            problems.append(f"{name}: ADD {rest}: COPY says what it does")
        source = re.match(r"--from=(\S+)", rest)
        if source and source[1] not in stages:
            problems.append(f"{name}: no stage {source[1]}")
        if word == "RUN" and "apt-get install" in rest and (
                "--no-install-recommends" not in rest or
                "/var/lib/apt/lists" not in rest):
            problems.append(f"{name}: leaves more than it needs")
for problem in problems:
    print(problem)
sys.exit(bool(problems))
PYTHON

mkdir "$work/debs"
for base in debian:12-slim docker.io/library/debian@sha256:12 \
  docker.io/library/debian:12-slim; do
  if deploy/container/build.sh --debs="$work/debs" --base="$base" \
    2>"$work/output"; then
    fail "builds from $base"
  fi
  grep -q "by its digest" "$work/output" || fail "$(cat "$work/output")"
done

gather_programs "$work/bin"
image=$work/image
for program in server worker trainer; do
  deploy/container/collect.sh "$image" "$work/bin/comera-$program" ||
    fail "collects nothing"
done
deploy/container/collect.sh "$image" "$work/bin/comera" || fail "no client"
if find "$image" -name 'sh' -o -name bash -o -perm -4000 | grep .; then
  fail "more than the programs"
fi
bytes=$(du -sb "$image" | cut -f1)
[ "$bytes" -lt $((200 << 20)) ] || fail "$bytes bytes in all"

# What a container runtime does: processes, devices and users of its own.
map=() user=(--userspec=10001:10001)
[ "$(id -u)" = 0 ] || { map=(--map-root-user) user=(); }
chmod 755 "$work" "$image"
inside() {
  # shellcheck disable=SC2016
  exec unshare "${map[@]}" --mount --pid --fork --kill-child sh -euc '
    image=$1
    shift
    mount -t proc proc "$image/proc"
    mount --rbind /dev "$image/dev"
    exec chroot "$@"' sh "$image" "${user[@]}" "$image" "$@"
}
if ! (inside "$work/bin/comera" --version) >"$work/output" 2>&1; then
  if [ "$(id -u)" != 0 ] || ! unshare --mount --pid --fork true 2>/dev/null; then
    echo "SKIPPED: no namespaces here: $(cat "$work/output")"
    exit 0
  fi
  fail "the client does not run"
fi
# The setup of deploy/kubernetes: TLS, and tokens that the command line beside the
# coordinator makes with the first one.
mapfile -t ports < <(free_ports 1)
server=localhost:${ports[0]}
home=/var/lib/comera
deploy/tls.sh "$work/tls" --server=localhost 2>"$work/output" ||
  fail "no certificates"
mkdir -p "$image/etc/comera"
cp -rL "$work/tls/localhost/current" "$image/etc/comera/tls"
[ "$(id -u)" != 0 ] || chown -R 10001:10001 "$image/etc/comera"
cp /etc/hosts "$image/etc/hosts"
(inside "$work/bin/comera-server" --listen="0.0.0.0:${ports[0]}" \
  --data_dir=$home/state --port_file=$home/port \
  --tls_cert=/etc/comera/tls/cert.pem --tls_key=/etc/comera/tls/key.pem \
  --init_admin_token_file=$home/admin.token) >"$work/server.log" 2>&1 &
pids+=($!)
wait_for 30 test -s "$image$home/port" || fail "the coordinator does not start"
comera() {
  (HOME=$home inside "$work/bin/comera" --server "$server" \
    --ca /etc/comera/tls/ca.pem --token-file $home/admin.token "$@")
}
comera token create --name inside --worker >"$image/worker.token" \
  2>"$work/output" || fail "no token for workers"
[ "$(id -u)" != 0 ] || chown 10001:10001 "$image/worker.token"
(inside "$work/bin/comera-worker" --server="$server" --slots=1 --name=inside \
  --data_dir=$home/worker --ca=/etc/comera/tls/ca.pem \
  --token_file=/worker.token) >"$work/worker.log" 2>&1 &
pids+=($!)
small_job 300 >"$image/job.yaml"
comera submit /job.yaml -o json >"$work/job" 2>"$work/output" ||
  fail "cannot submit"
job=$(sed -n 's/.*"name": "\(jobs\/[a-z0-9]*\)".*/\1/p;T;q' "$work/job")
comera wait "$job" --timeout 60s >"$work/output" 2>&1 ||
  fail "the job does not succeed"
echo "all as wanted: $((bytes >> 20)) MiB of files, a job trained with them"
