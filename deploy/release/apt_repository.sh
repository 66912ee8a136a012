#!/usr/bin/env bash
# Makes an apt repository of Debian packages: pool/, dists/SUITE/ and, with a key,
# its signatures and the public key in the form that `Signed-By:` takes.
#
#   apt_repository.sh --debs=FOLDER --out=FOLDER [--suite=stable] [--key=KEY]
#
#   --key   the GnuPG key that signs; without one there is Release alone, which
#           apt takes only with `Trusted: yes`
set -euo pipefail
fail() {
  echo "apt_repository.sh: $*" >&2
  exit 1
}

debs="" out="" suite=stable key=""
for argument; do
  value=${argument#*=}
  case "$argument" in
    --debs=?*) debs=$value ;;
    --out=?*) out=$value ;;
    --suite=?*) suite=$value ;;
    --key=?*) key=$value ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
if [ -z "$debs" ] || [ -z "$out" ]; then fail "--debs and --out are needed"; fi
packages=("$debs"/*.deb)
[ -e "${packages[0]}" ] || fail "--debs=$debs holds no package"
[[ $suite =~ ^[a-z0-9][a-z0-9.-]*$ ]] || fail "--suite=$suite is no suite's name"
command -v apt-ftparchive >/dev/null || fail "apt-utils is not installed"

architecture=$(dpkg --print-architecture)
dist=dists/$suite
mkdir -p "$out/pool/main/c/comera" "$out/$dist/main/binary-$architecture"
cp "${packages[@]}" "$out/pool/main/c/comera/"
chmod 644 "$out"/pool/main/c/comera/*
cd "$out"
index=$dist/main/binary-$architecture/Packages
apt-ftparchive packages pool >"$index"
gzip -9nkf "$index"
apt-ftparchive \
  -o APT::FTPArchive::Release::Origin=comera \
  -o APT::FTPArchive::Release::Label=comera \
  -o "APT::FTPArchive::Release::Suite=$suite" \
  -o "APT::FTPArchive::Release::Codename=$suite" \
  -o "APT::FTPArchive::Release::Architectures=$architecture" \
  -o APT::FTPArchive::Release::Components=main \
  -o "APT::FTPArchive::Release::Description=comera for Debian 12" \
  release "$dist" >Release.new
mv Release.new "$dist/Release"
[ -n "$key" ] || exit 0
sign() { gpg --batch --yes --local-user "$key" "$@" "$dist/Release"; }
sign --clearsign --output "$dist/InRelease"
sign --armor --detach-sign --output "$dist/Release.gpg"
gpg --batch --yes --export --output comera-archive-keyring.gpg "$key"
