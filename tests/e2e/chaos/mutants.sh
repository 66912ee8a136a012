#!/usr/bin/env bash
# Removes one fence of the service at a time and lets chaos look for it.
#
#   tests/e2e/chaos/mutants.sh [--minutes=10] [--seed=1] [NAME...]
#
# A mutant is this checkout's last commit with a patch of tests/e2e/chaos/mutants
# that takes one fence away. Each is built in a work tree of its own, then
# disturbed by the faults that the fence is for, round by round with another
# seed until a promise is broken or the minutes are over. Without names all are
# tried. Prints a table: found or not found, after how many minutes of faults,
# by which broken promise. Run it by hand, as root: a mutant takes as long as
# its build, and at most the minutes beyond that and the ends of jobs. Exit
# status 1: a mutant was not found. Other flags are those of chaos.
set -euo pipefail
cd "$(dirname "$0")/../../.."
patches=tests/e2e/chaos/mutants
minutes=10 seed=1
names=() flags=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
      exit 0
      ;;
    --minutes=*) minutes=${argument#*=} ;;
    --seed=*) seed=${argument#*=} ;;
    -*) flags+=("$argument") ;;
    *) names+=("$argument") ;;
  esac
done
if [ ${#names[@]} = 0 ]; then
  for patch in "$patches"/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

# The faults that the fence is for.
faults() {
  case "$1" in
    leader_term | leader_lease) echo leader,coordinator,database,database_silence ;;
    state_lineage | start_state) echo worker,member,holder,silence ;;
    upload_attempt | stopped_gang) echo silence,worker,loss,coordinator ;;
    worker_name | daemon_id) echo impostor,worker,silence ;;
    upload_once) echo worker,member,loss ;;
    store_expiry) echo worker,member,holder ;;
    clock_guard) echo start_clock,coordinator ;;
    read_only) echo full_coordinator_disk,coordinator ;;
    budget_refill) echo member,worker ;;
    *)
      echo "mutants.sh: no mutant is called $1" >&2
      exit 2
      ;;
  esac
}
for name in "${names[@]}"; do faults "$name" >/dev/null; done

work=$(mktemp -d)
finish() {
  git worktree remove --force "$work/tree" 2>/dev/null || true
  rm -rf "$work/tree"
}
trap finish EXIT
git worktree add --quiet --detach "$work/tree" HEAD
root=$PWD
missed=0
table="$work/table"
printf '%-16s %-10s %s\n' mutant result 'minutes, and the first broken promise' >"$table"
for name in "${names[@]}"; do
  log="$work/$name.log"
  result='not run' note="see $log"
  if git -C "$work/tree" apply "$root/$patches/$name.patch" &&
    (cd "$work/tree" && bazel build -c opt --noshow_progress \
      --ui_event_filters=-info //tests/e2e/chaos) >"$log" 2>&1; then
    result='not found' note=
    begin=$SECONDS
    for ((round = 0; SECONDS - begin < minutes * 60; ++round)); do
      code=0
      (cd "$work/tree" && timeout --kill-after=30 $((minutes * 60 + 600)) \
        bazel-bin/tests/e2e/chaos/chaos --seed=$((seed + round)) \
        --minutes=2 --interval=1.5 --settle_minutes=3 \
        --only="$(faults "$name")" "${flags[@]}") >>"$log" 2>&1 || code=$?
      note="$(((SECONDS - begin) / 60)) "
      case $code in
        0) ;;
        1)
          result=found
          note+="$(grep -m 1 -o 'VIOLATED.*' "$log" | cut -c 10-130 || true)"
          break
          ;;
        *)
          result='not run' note="exit status $code; see $log"
          break
          ;;
      esac
    done
  fi
  git -C "$work/tree" checkout --quiet -- .
  [ "$result" = found ] || missed=1
  printf '%-16s %-10s %s\n' "$name" "$result" "$note" | tee -a "$table"
done
(cd "$work/tree" && bazel shutdown)
echo
cat "$table"
exit "$missed"
