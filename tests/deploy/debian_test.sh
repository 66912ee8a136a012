#!/usr/bin/env bash
# deploy/debian/build.sh: what is in the packages, what they ask for, and that
# the programs and units of an unpacked root work. The installation itself in a
# clean Debian: tests/deploy/clean_root.sh.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
if ! command -v dh >/dev/null; then
  echo "SKIPPED: debhelper is not installed"
  exit 0
fi
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/debian.XXXXXX")
pids=()
trap 'stop "${pids[@]}"; rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/*.log "$work/output" >&2 2>/dev/null || true
  exit 1
}

gather_programs "$work/bin"
if deploy/debian/build.sh --out="$work/none" --programs="$work" \
  >"$work/output" 2>&1; then
  fail "packs without programs"
fi
export DPKG_DEB_COMPRESSOR_LEVEL=1  # half of the time otherwise
deploy/debian/build.sh --out="$work/out" --programs="$work/bin" \
  --man=deploy/man/man_pages.tar >"$work/built" 2>"$work/output" ||
  fail "does not build"
version=$("$work/bin/comera" --version | grep -oE '[0-9]+(\.[0-9]+)+')
for package in comera comera-server comera-worker comera-client; do
  grep -q "$work/out/${package}_$version-1_$(dpkg --print-architecture).deb" \
    "$work/built" || fail "no $package in $(cat "$work/built")"
done
grep -q "python3-comera_$version-1_all.deb" "$work/built" || fail "no Python"

deb() { echo "$work/out/$1"_*.deb; }
has() {  # has PACKAGE MODE PATH
  dpkg-deb -c "$(deb "$1")" | sed 's/ -> .*//' |
    grep -E "^$2 root/root .* \./$3\$" >/dev/null ||
    fail "$1 has no $2 $3: $(dpkg-deb -c "$(deb "$1")")"
}
has comera-server -rwxr-xr-x usr/bin/comera-server
has comera-server -rw-r--r-- etc/comera/server.env
has comera-server -rw-r--r-- lib/systemd/system/comera-server.service
has comera-server -rwxr-xr-x usr/share/comera/tls.sh
has comera-server -rw-r--r-- usr/share/man/man8/comera-server.8.gz
has comera-worker -rwxr-xr-x usr/bin/comera-worker
has comera-worker -rwxr-xr-x usr/bin/comera-trainer
has comera-worker -rw-r--r-- etc/comera/worker.env
has comera-worker -rw-r--r-- lib/systemd/system/comera-worker.service
has comera-worker -rwxr-xr-x usr/share/comera/slurm/comera_workers.sh
has comera-worker -rw-r--r-- usr/share/man/man8/comera-worker.8.gz
has comera-worker -rw-r--r-- usr/share/man/man1/comera-trainer.1.gz
has comera-client -rwxr-xr-x usr/bin/comera
has comera-client -rw-r--r-- usr/share/man/man1/comera.1.gz
has comera-client -rw-r--r-- usr/share/man/man1/comera-submit.1.gz
has comera-client -rw-r--r-- usr/share/bash-completion/completions/comera
has comera-client -rw-r--r-- usr/share/zsh/vendor-completions/_comera
has comera-client -rw-r--r-- usr/share/fish/vendor_completions.d/comera.fish
has comera-client -rw-r--r-- \
  usr/share/doc/comera-client/examples/quickstart_code_mlm.yaml
has python3-comera -rw-r--r-- \
  usr/lib/python3/dist-packages/comera/torch/__init__.py
has python3-comera -rw-r--r-- usr/lib/python3/dist-packages/comera/py.typed

# What the programs are linked with is what the packages ask for; the libraries'
# versions are in the packages' names and those of the system.
needs() {
  dpkg-deb -f "$(deb "$1")" Depends | grep "$2" >/dev/null ||
    fail "$1: no $2"
}
for package in comera-client comera-server comera-worker; do
  needs comera "$package (= $version-1)"
done
needs comera-server 'libgrpc++[0-9.]* (>='
needs comera-server libpqxx
needs comera-server adduser
needs comera-worker libgloo
needs comera-worker libdnnl
needs comera-client libyaml-cpp
needs python3-comera python3-grpcio
for package in comera-server comera-worker; do
  rm -rf "$work/control"
  dpkg-deb -e "$(deb "$package")" "$work/control"
  [ "$(cat "$work/control/conffiles")" = \
    "/etc/comera/${package#comera-}.env" ] || fail "$package: conffiles"
  for script in postinst prerm postrm; do
    sh -n "$work/control/$script" || fail "$package: $script"
  done
  grep -q 'adduser.* --system' "$work/control/postinst" || fail "no user"
  if grep -E 'deb-systemd-invoke.*start' "$work/control"/*; then
    fail "$package starts a daemon by surprise"
  fi
done

for package in comera-server comera-worker comera-client python3-comera; do
  dpkg-deb -x "$(deb "$package")" "$work/root"
done
(cd "$work/root" && dpkg-deb -e "$(deb comera-client)" "$work/sums" &&
  md5sum --quiet -c "$work/sums/md5sums") || fail "checksums"
for program in "$work"/root/usr/bin/comera*; do
  if readelf -S "$program" | grep '\.symtab' >/dev/null; then fail "not stripped"; fi
  "$program" --version | grep "$version" >/dev/null || fail "$program does not run"
done
if /usr/bin/python3 -c 'import grpc' 2>/dev/null; then
  PYTHONPATH=$work/root/usr/lib/python3/dist-packages /usr/bin/python3 -c \
    'import comera; print(comera.Client)' >"$work/output" 2>&1 || fail "Python"
fi
bash -c "source '$work/root/usr/share/bash-completion/completions/comera' &&
  complete -p comera" >"$work/output" 2>&1 || fail "the completion"

# With the configuration files as they come, but for the port.
run=$work/root/usr/bin
# shellcheck disable=SC1091
(set -a && source "$work/root/etc/comera/server.env" &&
  [ "$COMERA_SERVER_OPTIONS" = --listen=127.0.0.1:7400 ]) || fail "server.env"
"$run/comera-server" --listen=127.0.0.1:0 --data_dir="$work/state" \
  --port_file="$work/port" >"$work/server.log" 2>&1 &
pids+=($!)
wait_for 30 test -s "$work/port" || fail "the coordinator does not start"
COMERA_SERVER=$(cat "$work/port")
export COMERA_SERVER HOME=$work/home
"$run/comera-worker" --slots=1 --data_dir="$work/worker" \
  >"$work/worker.log" 2>&1 &
pids+=($!)
small_job 300 >"$work/job.yaml"
"$run/comera" submit "$work/job.yaml" -o json >"$work/job" 2>"$work/output" ||
  fail "cannot submit"
job=$(sed -n 's/.*"name": "\(jobs\/[a-z0-9]*\)".*/\1/p;T;q' "$work/job")
"$run/comera" wait "$job" --timeout 60s >"$work/output" 2>&1 ||
  fail "the job does not succeed"

if command -v lintian >/dev/null; then
  # Warnings that hold: nothing was uploaded to Debian before.
  lintian --no-cfg --allow-root --fail-on error,warning --suppress-tags \
    initial-upload-closes-no-bugs "$work/out"/*.deb >"$work/output" 2>&1 ||
    fail "lintian"
  grep -c . "$work/output" >/dev/null && cat "$work/output"
else
  echo "SKIPPED: lintian is not installed"
fi
echo "all as wanted"
