#!/usr/bin/env bash
# deploy/release.sh: what a release holds, that apt takes its repository and
# refuses a changed one, that the tarball trains a job without any library of
# this machine, that the bill of materials names what the programs load, and
# that making it again gives the same files.
set -euo pipefail
# shellcheck source=tests/deploy/small_cluster.sh
source tests/deploy/small_cluster.sh
for tool in dh:debhelper apt-ftparchive:apt-utils gpg:gnupg patchelf:patchelf \
  grpc_python_plugin:protobuf-compiler-grpc; do
  if ! command -v "${tool%:*}" >/dev/null; then
    echo "SKIPPED: ${tool#*:} is not installed"
    exit 0
  fi
done
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/release.XXXXXX")
# GnuPG's sockets want a short path.
GNUPGHOME=$(mktemp -d /tmp/gnupg.XXXXXX)
export GNUPGHOME HOME=$work/home
mkdir "$HOME"
clean() {
  gpgconf --kill all 2>/dev/null || true
  rm -rf "$work" "$GNUPGHOME"
}
trap clean EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work/output" >&2 2>/dev/null || true
  exit 1
}
version=$(deploy/version.sh)
make_release() { deploy/release.sh --no-containers "$@" >"$work/output" 2>&1; }
says() { grep -e "$1" "$work/output" >/dev/null || fail "does not say: $1"; }

make_release --help || fail "--help"
says "deploy/release.sh --out=FOLDER"
if make_release; then fail "a release nowhere"; fi
says "--out=FOLDER is needed"
if make_release --out="$work/out" --programs="$work"; then fail "no programs"; fi
says "build the programs first"
if make_release --out="$work/out" --key=nobody; then fail "a key of nobody"; fi
says "--key=nobody: gpg has no such secret key"
mkdir "$work/mine"
echo precious >"$work/mine/file"
if make_release --out="$work/mine"; then fail "replaces files of others"; fi
says "holds files that are no release"
[ "$(cat "$work/mine/file")" = precious ] || fail "touches files of others"

gather_programs "$work/bin"
mkdir "$work/wrong"
cp "$work/bin"/* "$work/wrong/"
printf '#!/bin/sh\necho comera-worker 99.0\n' >"$work/wrong/comera-worker"
if make_release --out="$work/out" --programs="$work/wrong"; then
  fail "programs of two versions"
fi
says "comera-worker is of version 99.0, common/version.h of $version"

if make_release --out="$work/out" --programs="$work/bin" --man="$work/none"; then
  fail "no manual pages"
fi
says "there is no $work/none: build //deploy/man:man_pages"

# In a few seconds in place of a minute.
export DPKG_DEB_COMPRESSOR_LEVEL=1 XZ_OPT=-0
gpg --batch --quiet --passphrase '' --quick-generate-key \
  'Release test <release@example.org>' rsa2048 sign 1d 2>"$work/output" ||
  fail "no key"
release() {
  make_release --out="$work/out" --programs="$work/bin" \
    --man=deploy/man/man_pages.tar --key=release@example.org ||
    fail "makes no release"
}
release
out=$work/out
(cd "$out" && sha256sum --quiet -c SHA256SUMS) >"$work/output" 2>&1 ||
  fail "checksums"
gpg --batch --verify "$out/SHA256SUMS.asc" "$out/SHA256SUMS" \
  2>"$work/output" || fail "the signature of the checksums"
(cd "$out" && find . -type f ! -name 'SHA256SUMS*' | wc -l) >"$work/count"
[ "$(wc -l <"$out/SHA256SUMS")" = "$(cat "$work/count")" ] ||
  fail "files without a checksum"
for file in CHANGELOG.md LICENSE "comera-$version-py3-none-any.whl" \
  "comera-$version-linux-$(uname -m).tar.xz" "comera-$version.spdx.json"; do
  [ -s "$out/$file" ] || fail "no $file"
done

# apt, with folders of its own in place of the system's.
apt=(-o "Dir::State=$work/apt/state" -o "Dir::Cache=$work/apt/cache"
  -o "Dir::Etc::sourcelist=$work/apt/comera.list" -o Dir::Etc::sourceparts=-
  -o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User=root)
update() {
  rm -rf "$work/apt"
  mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial"
  echo "deb [signed-by=$out/apt/comera-archive-keyring.gpg] file:$out/apt stable main" \
    >"$work/apt/comera.list"
  apt-get "${apt[@]}" --error-on=any update >"$work/output" 2>&1
}
update || fail "apt refuses the repository"
apt-cache "${apt[@]}" show comera >"$work/output" 2>&1 || fail "no comera"
says "^Version: $version-1$"
for package in comera-client comera-server comera-worker; do
  says "^Depends: .*$package (= $version-1)"
  apt-cache "${apt[@]}" policy "$package" | grep "Candidate: $version-1" \
    >/dev/null || fail "apt does not offer $package"
done
# Somebody changes the index on its way.
dist=$out/apt/dists/stable
index=$dist/main/binary-$(dpkg --print-architecture)/Packages
cp "$index" "$work/Packages"
sed -i 's/^Priority: optional/Priority: required/' "$index"
rm "$index.gz"
if update; then fail "apt takes a changed index"; fi
cp "$work/Packages" "$index"
gzip -9nk "$index"
sed -i 's/^Description: .*/Description: another/' "$dist/InRelease" "$dist/Release"
if update; then fail "apt takes a changed Release"; fi

mkdir "$work/unpacked"
tar -C "$work/unpacked" -xf "$out"/comera-*.tar.xz
tree=$(echo "$work/unpacked"/comera-*)
for program in "$tree"/bin/*; do
  env -i "$program" --version >"$work/output" || fail "$program does not run"
  says "$version"
  if env -i ldd "$program" | grep -vE 'linux-vdso|ld-linux' |
    grep -vE '^\s+lib(c|m|mvec|dl|rt|pthread|resolv|util)\.so' |
    grep -v " $tree/"; then
    fail "$program loads more than its own and the C library"
  fi
  # By which number the machine's C library is new enough.
  needed=$(sed -nE 's/.*glibc (2\.[0-9]+) or newer.*/\1/p' "$tree/README.txt")
  newest=$(objdump -T "$program" | grep -oE 'GLIBC_2\.[0-9]+' | sort -V |
    tail -n 1)
  [ "$(printf '%s\n' "GLIBC_$needed" "$newest" | sort -V | tail -n 1)" = \
    "GLIBC_$needed" ] || fail "$program needs $newest, README.txt says $needed"
done
[ -s "$tree/share/doc/licenses/libssl3" ] || fail "no licence of libssl3"
[ -s "$tree/share/man/man1/comera.1.gz" ] || fail "no manual page"
small_job 200 >"$work/job.yaml"
env -i HOME="$HOME" PATH=/usr/bin:/bin "$tree/bin/comera" run "$work/job.yaml" \
  --data-dir "$work/data" --model-dir "$work/model" >"$work/output" 2>&1 ||
  fail "the unpacked programs train nothing"
[ -s "$work/model/model.safetensors" ] || fail "no model"

PROGRAMS=$work/bin SBOM=$out/comera-$version.spdx.json \
  /usr/bin/python3 -B tests/deploy/sbom_test.py || fail "the bill of materials"

cp "$out/SHA256SUMS" "$work/first"
release
signed='apt/dists/stable/(InRelease|Release|Release.gpg)$'
diff <(grep -vE "$signed" "$work/first") <(grep -vE "$signed" "$out/SHA256SUMS") \
  >"$work/output" || fail "the second time differs"
says_nothing=$(grep -cE "$signed" "$out/SHA256SUMS")
[ "$says_nothing" = 3 ] || fail "signed files: $says_nothing"
echo "all as wanted: $(du -sm "$out" | cut -f1) MiB"
