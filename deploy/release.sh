#!/usr/bin/env bash
# Makes what a release holds from what is built already. Needs the tools of
# `deploy/install_deps.sh --tests`, no root (but for container images) and no
# network (but for the base of container images).
#
#   bazel build //client:comera //server:comera-server //worker:comera-worker \
#     //worker/trainer:comera-trainer //deploy/man:man_pages
#   deploy/release.sh --out=FOLDER [--key=KEY] [--programs=FOLDER] [--man=FILE]
#                     [--suite=stable] [--base=IMAGE] [--no-containers]
#
#   --out            where the release goes; a release that is there is replaced,
#                    and any other folder that holds files is refused
#   --key            the GnuPG key that signs the apt repository and SHA256SUMS;
#                    without one both stay unsigned, and a message says so
#   --programs       where the four programs are; default: bazel-bin
#   --man            //deploy/man:man_pages; default: that of bazel-bin
#   --suite          the apt repository's suite
#   --base           a container image to start from, for container/build.sh
#   --no-containers  leaves the container images out; they are left out with a
#                    message where buildah is not installed
#
# FOLDER then holds the apt repository apt/ of the Debian packages, a wheel, a
# tarball that needs nothing but the C library, container images as archives, an
# SBOM (SPDX 2.3, JSON), CHANGELOG.md, LICENSE and SHA256SUMS. The same programs
# and sources give the same files, but for signatures, images and the date in
# apt/'s Release file.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
usage() { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; }
fail() {
  echo "release.sh: $*" >&2
  exit 1
}
note() { echo "release.sh: $*" >&2; }

out="" key="" programs="" man=$root/bazel-bin/deploy/man/man_pages.tar
suite=stable base="" containers=1
for argument; do
  value=${argument#*=}
  case "$argument" in
    --out=?*) out=$value ;;
    --key=?*) key=$value ;;
    --programs=?*) programs=$value ;;
    --man=?*) man=$value ;;
    --suite=?*) suite=$value ;;
    --base=?*) base=$value ;;
    --no-containers) containers="" ;;
    --help)
      usage
      exit 0
      ;;
    *)
      note "unknown argument '$argument'"
      usage >&2
      exit 2
      ;;
  esac
done
[ -n "$out" ] || fail "--out=FOLDER is needed (--help)"
for tool in dh:debhelper apt-ftparchive:apt-utils patchelf:patchelf \
  protoc:protobuf-compiler grpc_python_plugin:protobuf-compiler-grpc xz:xz-utils; do
  command -v "${tool%:*}" >/dev/null ||
    fail "${tool%:*} is not installed: apt-get install ${tool#*:}"
done
if [ -n "$key" ]; then
  command -v gpg >/dev/null || fail "gpg is not installed: apt-get install gnupg"
  gpg --batch --list-secret-keys "$key" >/dev/null 2>&1 ||
    fail "--key=$key: gpg has no such secret key"
fi
if [ -e "$out" ] && [ ! -d "$out" ]; then fail "--out=$out is no folder"; fi
if [ -d "$out" ] && [ -n "$(ls -A "$out")" ] && [ ! -e "$out/SHA256SUMS" ]; then
  fail "--out=$out holds files that are no release: name another folder"
fi

version=$("$here/version.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/programs" "$work/release"
for program in client/comera server/comera-server worker/comera-worker \
  worker/trainer/comera-trainer; do
  name=${program##*/}
  from=${programs:+$programs/$name}
  cp -L "${from:-$root/bazel-bin/$program}" "$work/programs/" 2>/dev/null ||
    fail "there is no ${from:-bazel-bin/$program}: build the programs first"
  chmod 755 "$work/programs/$name"
  built=$("$work/programs/$name" --version | grep -oE '[0-9]+(\.[0-9]+)+') ||
    fail "$name does not run here"
  [ "$built" = "$version" ] ||
    fail "$name is of version $built, common/version.h of $version: build again"
done
[ -e "$man" ] || fail "there is no $man: build //deploy/man:man_pages"
grep -qE "^## $version( |$)" "$root/CHANGELOG.md" ||
  fail "CHANGELOG.md has no section '## $version'"
# The time of everything that is packed.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null ||
    stat -L -c %Y "$root/CHANGELOG.md")
fi
export SOURCE_DATE_EPOCH

release=$work/release
cp -L "$root/CHANGELOG.md" "$root/LICENSE" "$release/"
"$here/release/wheel.sh" --out="$release"
# Packages take the Python modules of the same stubs.
"$root/client/python/generate_stubs.sh" "$work/stubs"
mkdir "$work/python"
cp -rL "$root/client/python/comera" "$work/python/"
rm -rf "$work/python/comera/_proto"
cp -r "$work/stubs" "$work/python/comera/_proto"
"$here/debian/build.sh" --out="$work/debs" --programs="$work/programs" \
  --man="$man" --python="$work/python" >/dev/null
"$here/release/apt_repository.sh" --debs="$work/debs" --out="$release/apt" \
  --suite="$suite" ${key:+--key="$key"}
"$here/release/tarball.sh" --programs="$work/programs" --debs="$work/debs" \
  --out="$release"
/usr/bin/python3 -B "$here/release/sbom.py" --root="$root" \
  --version="$version" --programs="$work/programs" \
  --out="$release/comera-$version.spdx.json"
if [ -z "$containers" ]; then
  note "no container images, as --no-containers asks"
elif ! command -v buildah >/dev/null; then
  note "SKIPPED: container images: buildah is not installed"
else
  "$here/container/build.sh" --debs="$work/debs" --tag="$version" \
    --out="$release/images" ${base:+--base="$base"} >&2
fi
[ -n "$key" ] || note "unsigned: apt/ and SHA256SUMS have no signature (--key)"

(cd "$release" && find . -type f -printf '%P\n' | LC_ALL=C sort |
  xargs -d '\n' sha256sum) >"$work/sums"
cp "$work/sums" "$release/SHA256SUMS"
if [ -n "$key" ]; then
  gpg --batch --yes --local-user "$key" --armor --detach-sign \
    --output "$release/SHA256SUMS.asc" "$release/SHA256SUMS"
fi
# The old release goes only when the new one is whole.
mkdir -p "$out"
new=$(mktemp -d "$out.XXXXXX")
chmod 755 "$new"
cp -r "$release/." "$new/"
rm -rf "$out"
mv "$new" "$out"
find "$out" -type f -printf '%s %p\n' | LC_ALL=C sort -k2
