#!/usr/bin/env bash
# From a clean Debian 12 to the first trained model, timed: makes a signed apt
# repository of the packages and a root of Debian with nothing but apt, which is
# what comes before the clock starts; then adds the repository there, installs
# `comera` by apt-get, and trains by `comera run` as a user who is nobody special.
# Prints the seconds of each step, those that processors worked in it, and the
# load of the machine, and fails above --limit. Needs root,
# mmdebstrap, debhelper, apt-utils, gnupg, and Debian's mirror that apt uses
# here, from which apt-get fetches what the packages depend on. Not part of
# tests/run.sh.
#
#   tests/deploy/install_minute.sh [--programs=FOLDER | --debs=FOLDER]
#                                  [--limit=60] [--job=FILE]
#
#   --programs  the four programs; default: those of bazel-bin
#   --debs      the packages, made by deploy/debian/build.sh before
#   --job       the job file; default: the click model of the installed example
#               dlrm_synthetic.yaml with fewer rows and 200 steps of 128 rows
set -euo pipefail
cd "$(dirname "$0")/../.."
programs="" debs="" limit=60 job=""
for argument; do
  value=${argument#*=}
  case "$argument" in
    --programs=?*) programs=$value ;;
    --debs=?*) debs=$value ;;
    --limit=?*) limit=$value ;;
    --job=?*) job=$value ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 "$work/log" >&2 2>/dev/null || true
  exit 1
}
[ "$(id -u)" = 0 ] || fail "needs root, for a root folder of its own"
for tool in mmdebstrap dh:debhelper apt-ftparchive:apt-utils gpg:gnupg; do
  command -v "${tool%:*}" >/dev/null || fail "${tool#*:} is not installed"
done

work=$(mktemp -d /var/tmp/install_minute.XXXXXX)
GNUPGHOME=$(mktemp -d /tmp/gnupg.XXXXXX)
export GNUPGHOME
root=$work/root mounted=()
clean() {
  local folder
  for folder in "${mounted[@]}"; do umount -l "$folder" || true; done
  gpgconf --kill all || true
  rm -rf "$GNUPGHOME"
  mountpoint -q "$root/proc" || rm -rf "$work"
}
trap clean EXIT

# Before the clock starts.
gpg --batch --quiet --passphrase '' --quick-generate-key \
  'A release <release@example.org>' rsa3072 sign 2d 2>"$work/log"
if [ -z "$debs" ]; then
  debs=$work/debs
  deploy/debian/build.sh --out="$debs" ${programs:+--programs="$programs"} \
    --python="$work/none" >"$work/log" 2>&1 || fail "no packages"
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
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive chroot "$@"
}
inside "$root" useradd --create-home newcomer
if [ -e "$root/usr/bin/comera" ]; then fail "comera was there before"; fi
echo "a clean Debian 12 with $(inside "$root" dpkg-query -W | wc -l) packages"

now() { date +%s.%N; }
# Processor time of all that this script has waited for.
worked() { awk '{ printf "%.1f", ($16 + $17) / 100 }' /proc/$$/stat; }
seconds() { awk "BEGIN { printf \"%.1f\", $2 - $1 }"; }
start=$(now)
worked0=$(worked)
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
  apt-get install -y -q --no-install-recommends comera' >"$work/log" 2>&1 ||
  fail "cannot install"
installed=$(now)
worked1=$(worked)
unpacked=$(grep -c '^Unpacking ' "$work/log")
if [ -n "$job" ]; then
  cp "$job" "$root/home/newcomer/job.yaml"
else
  # The installed example, and what makes it a first try.
  cp "$root/usr/share/doc/comera-client/examples/dlrm_synthetic.yaml" \
    "$root/home/newcomer/job.yaml"
fi
chmod 644 "$root/home/newcomer/job.yaml"
smaller=()
if [ -z "$job" ]; then
  smaller=(--set data.synthetic_clicks.train_rows=30000
    --set data.synthetic_clicks.validation_rows=2000
    --set training.batch_size=128 --set objective.early.steps=200
    --set training.validate_every_steps=100)
fi
# shellcheck disable=SC2016
inside --userspec=newcomer:newcomer "$root" sh -euc '
  export HOME=/home/newcomer
  cd
  comera run job.yaml --model-dir model "$@"' sh "${smaller[@]}" \
  >"$work/log" 2>&1 || fail "trains nothing"
trained=$(now)
worked2=$(worked)
[ -s "$root/home/newcomer/model/model.safetensors" ] || fail "no model"
grep -E '^(job|outcome|time|validation|size) ' "$work/log" || true
total=$(seconds "$start" "$trained")
echo "apt-get update and install: $(seconds "$start" "$installed") s ($(seconds "$worked0" "$worked1") s of processors), $unpacked packages"
echo "comera run: $(seconds "$installed" "$trained") s ($(seconds "$worked1" "$worked2") s of processors)"
echo "load of the machine's $(nproc) processors: $(cut -d' ' -f1-3 /proc/loadavg)"
echo "from a clean Debian to a trained model: $total s (limit $limit s)"
awk "BEGIN { exit !($total <= $limit) }" || fail "above the limit"
