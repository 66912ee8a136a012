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
# shellcheck source=tests/deploy/clean_debian.sh
source tests/deploy/clean_debian.sh
work="" root=""  # set there
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
# Before the clock starts.
make_clean_debian "$debs" "$programs" /none

# Processor time of all that this script has waited for.
worked() { awk '{ printf "%.1f", ($16 + $17) / 100 }' /proc/$$/stat; }
start=$(now)
worked0=$(worked)
install_packages comera || fail "cannot install"
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
as_newcomer "comera run job.yaml --model-dir model ${smaller[*]}" \
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
