#!/bin/sh
# collect.sh FOLDER /PATH/OF/PROGRAM...: a root folder with these programs, the
# libraries that they load, and what a C library wants to know: users, names,
# authorities.
set -eu
to=$1
shift
mkdir -p "$to/dev" "$to/proc" "$to/sys" "$to/tmp" "$to/var/lib/comera"
# copy PATH: with its folders; a link becomes what it points to.
copy() {
  mkdir -p "$to$(dirname "$1")"
  cp -L "$1" "$to$1"
}
for program; do
  copy "$program"
  if ldd "$program" | grep "not found" >&2; then
    echo "collect.sh: $program lacks libraries" >&2
    exit 1
  fi
  for library in $(ldd "$program" | grep -o '/[^ ]*'); do
    [ -e "$to$library" ] || copy "$library"
  done
done
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
  copy /etc/ssl/certs/ca-certificates.crt
fi
mkdir -p "$to/etc"
echo 'hosts: files dns' >"$to/etc/nsswitch.conf"
echo 'comera:x:10001:10001::/var/lib/comera:/usr/sbin/nologin' \
  >"$to/etc/passwd"
echo 'comera:x:10001:' >"$to/etc/group"
chmod 1777 "$to/tmp"
[ "$(id -u)" != 0 ] || chown 10001:10001 "$to/var/lib/comera"
chmod 700 "$to/var/lib/comera"
