# shellcheck shell=bash
# For tests to source: a clean Debian 12 in a folder, with a signed apt
# repository of the packages beside it. Needs root, mmdebstrap, debhelper,
# apt-utils, gnupg, and Debian's mirror that apt uses here.

# Prints why, and the end of the log of the last step.
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 "$work/log" >&2 2>/dev/null || true
  exit 1
}

# make_clean_debian DEBS PROGRAMS [PYTHON]: makes $root, in which a user
# `newcomer` and nothing of comera is, and the repository. DEBS: a folder with
# the packages; empty: they are made of the programs in PROGRAMS (empty: those
# of bazel-bin) and of the Python package in PYTHON (empty: that of the tree).
# Everything goes when the script ends.
make_clean_debian() {
  local debs=$1 programs=$2 python=${3:-} tool folder
  [ "$(id -u)" = 0 ] || {
    echo "needs root, for a root folder of its own" >&2
    exit 1
  }
  for tool in mmdebstrap dh:debhelper apt-ftparchive:apt-utils gpg:gnupg; do
    command -v "${tool%:*}" >/dev/null || {
      echo "${tool#*:} is not installed" >&2
      exit 1
    }
  done
  work=$(mktemp -d /var/tmp/clean_debian.XXXXXX)
  GNUPGHOME=$(mktemp -d /tmp/gnupg.XXXXXX)
  export GNUPGHOME
  root=$work/root mounted=()
  trap remove_clean_debian EXIT
  gpg --batch --quiet --passphrase '' --quick-generate-key \
    'A release <release@example.org>' rsa3072 sign 2d 2>"$work/log"
  if [ -z "$debs" ]; then
    debs=$work/debs
    deploy/debian/build.sh --out="$debs" ${programs:+--programs="$programs"} \
      ${python:+--python="$python"} >"$work/log" 2>&1 || fail "no packages"
  fi
  deploy/release/apt_repository.sh --debs="$debs" --out="$work/apt" \
    --key=release@example.org >"$work/log" 2>&1 || fail "no repository"
  mmdebstrap --quiet --variant=minbase --include=ca-certificates \
    --skip=cleanup/apt/lists bookworm "$root" >"$work/log" 2>&1 ||
    fail "no Debian: see the log"
  mkdir -p "$root/srv/comera"
  cp -r "$work/apt/." "$root/srv/comera/"
  for folder in proc dev; do
    mount --rbind "/$folder" "$root/$folder"
    mount --make-rslave "$root/$folder"
    mounted+=("$root/$folder")
  done
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  if [ -n "${http_proxy:-}" ]; then
    echo "Acquire::http::Proxy \"$http_proxy\";" >"$root/etc/apt/apt.conf.d/proxy"
  fi
  # No daemon is to start in a root that has no init.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  inside "$root" useradd --create-home newcomer
  if [ -e "$root/usr/bin/comera" ]; then fail "comera was there before"; fi
  echo "a clean Debian 12 with $(inside "$root" dpkg-query -W | wc -l) packages"
}

remove_clean_debian() {
  local folder
  for folder in "${mounted[@]}"; do umount -l "$folder" || true; done
  gpgconf --kill all || true
  rm -rf "$GNUPGHOME"
  mountpoint -q "$root/proc" || rm -rf "$work"
}

# inside [chroot's flags] ROOT COMMAND...: runs it there, in an empty
# environment.
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive chroot "$@"
}

# The same as the user `newcomer`, at home.
as_newcomer() {
  # shellcheck disable=SC2016
  inside --userspec=newcomer:newcomer "$root" \
    sh -euc 'export HOME=/home/newcomer; cd; eval "$1"' sh "$1"
}

# Adds the repository, and installs these packages from there.
install_packages() {
  inside "$root" sh -euc '
    install -m 644 /srv/comera/comera-archive-keyring.gpg /usr/share/keyrings/
    cat >/etc/apt/sources.list.d/comera.sources <<TEXT
Types: deb
URIs: file:/srv/comera
Suites: stable
Components: main
Signed-By: /usr/share/keyrings/comera-archive-keyring.gpg
TEXT
    apt-get update -q
    apt-get install -y -q --no-install-recommends "$@"' sh "$@" >"$work/log" 2>&1
}

now() { date +%s.%N; }
# The seconds from one time to another.
seconds() { awk "BEGIN { printf \"%.1f\", $2 - $1 }"; }
