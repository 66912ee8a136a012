#!/usr/bin/env bash
# Removes one fence of the service at a time and lets chaos look for it.
#
#   tests/e2e/chaos/mutants.sh [--minutes=10] [--seed=1] [NAME...]
#
# A mutant is this checkout's last commit with a patch of tests/e2e/chaos/mutants
# that takes one fence away. Each is built in a work tree of its own, then
# disturbed by the faults that the fence is for, round by round with another
# seed until a promise is broken or the minutes are over. Where chaos cannot get
# to the fence, the unit test that does is run instead. Without names all are
# tried. Prints a table: found or not found, after how many minutes of faults,
# by which broken promise or test. Run it by hand, as root: a mutant takes as
# long as its build, and at most the minutes beyond that and the ends of jobs.
# Exit status 1: a mutant was not found. Other flags are those of chaos that are
# not among a mutant's own (settings, below).
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

# Sets for the mutant either
#   own, round   the flags of chaos, and the minutes of faults in a round
#   promise      what the broken promise has to say
# or
#   target, test a unit test and its filter
# Where workers fall silent there are six: of three, two would be "most", whose
# silence gives nothing up. Few jobs at a time get further between two faults.
settings() {
  own=() round=2 promise=. target='' test=''
  case "$1" in
    leader_lease)
      # A leader that writes steps down once a write fails, which is sooner.
      own=("--only=database_silence,leader" --interval=4 --jobs=0
        --specs=patient)
      promise=leaders:
      ;;
    leader_term)
      # Without the lease, which hides it as long as all clocks are good.
      own=("--only=database_silence,leader" --interval=4 --jobs=0
        --specs=patient)
      promise="workers' fence let it pass"
      ;;
    state_lineage)
      promise=states:
      own=("--only=worker,silence,holder" --interval=3
        --workers=6 --slots=4 --jobs=12)
      round=4
      ;;
    start_state)
      own=("--only=worker,member" --interval=2)
      promise=states:
      ;;
    upload_attempt)
      own=("--only=late_upload,member,worker" --interval=1.5)
      promise=once:
      ;;
    worker_name)
      own=(--only=impostor --interval=3 --jobs=6)
      promise='once: two workers'
      ;;
    daemon_id)
      target=//tests/server/coordinator/synchronize:synchronize_exchange_test
      test='*.ALaterDaemonKeepsTheMembersOfItsIncarnation'
      ;;
    store_expiry)
      promise='kept: the store had'
      own=(--only=worker --interval=20 --steps=1000
        "--specs=ranks-1-seed-1,ranks-2-seed-1")
      ;;
    clock_guard)
      promise='accepted\|kept:'
      # With one coordinator, which always leads.
      own=(--sqlite --only=start_clock --interval=4 --workers=2 --slots=6)
      round=4
      ;;
    read_only)
      own=(--only=full_coordinator_disk --interval=6)
      promise='full disk:'
      ;;
    budget_refill)
      own=("--only=member,lost_disk" --interval=0.8 --steps=1900
        --specs=frugal --workers=5 --slots=3 --jobs=6)
      round=5
      promise=budgets:
      ;;
    upload_once)
      target=//tests/server/coordinator/job:job_artifacts_test
      test='*.OnlyTheWorkerOfMember0UploadsAndEachFileOnce'
      ;;
    stopped_gang)
      target=//tests/server/coordinator:coordinator_recovery_test
      test='*.AGangIsNotAdoptedOnceAMemberWasToldToStop'
      ;;
    *)
      echo "mutants.sh: no mutant is called $1" >&2
      exit 2
      ;;
  esac
}
for name in "${names[@]}"; do settings "$name"; done

work=$(mktemp -d)
finish() {
  git worktree remove --force "$work/tree" 2>/dev/null || true
  rm -rf "$work/tree"
}
trap finish EXIT
git worktree add --quiet --detach "$work/tree" HEAD
root=$PWD
build=(-c opt --noshow_progress --ui_event_filters=-info)

# Each of the two sets `result` and `note`.
run_test() {
  local code=0
  (cd "$work/tree" && bazel test "${build[@]}" --test_filter="$test" \
    "$target") >>"$log" 2>&1 || code=$?
  case $code in
    0) result='not found' note="$test passes" ;;
    # It was built, and it fails.
    3) result=found note="$test" ;;
    *) note="exit status $code; see $log" ;;
  esac
}
run_chaos() {
  local begin number code
  if ! (cd "$work/tree" && bazel build "${build[@]}" //tests/e2e/chaos) \
    >>"$log" 2>&1; then
    return
  fi
  begin=$SECONDS
  for ((number = 0; SECONDS - begin < minutes * 60; ++number)); do
    code=0
    (cd "$work/tree" && timeout --kill-after=30 $((minutes * 60 + 600)) \
      bazel-bin/tests/e2e/chaos/chaos --seed=$((seed + number)) \
      --minutes="$round" --settle_minutes=3 "${own[@]}" "${flags[@]}") \
      >>"$log" 2>&1 || code=$?
    note="$(((SECONDS - begin) / 60)) "
    case $code in
      0) result='not found' ;;
      1)
        result='not found'
        broken=$(grep -o 'VIOLATED.*' "$log" | grep -m 1 "$promise" || true)
        note+="$(cut -c 10-130 <<<"$broken")"
        if [ -n "$broken" ]; then
          result=found
          return
        fi
        ;;
      *)
        result='not run' note="exit status $code; see $log"
        return
        ;;
    esac
  done
}

missed=0
table="$work/table"
printf '%-16s %-10s %s\n' mutant result \
  'minutes, and the first broken promise; or the test' >"$table"
for name in "${names[@]}"; do
  settings "$name"
  log="$work/$name.log"
  result='not run' note="see $log"
  if git -C "$work/tree" apply "$root/$patches/$name.patch" >>"$log" 2>&1; then
    if [ -n "$target" ]; then run_test; else run_chaos; fi
  fi
  git -C "$work/tree" checkout --quiet -- .
  [ "$result" = found ] || missed=1
  printf '%-16s %-10s %s\n' "$name" "$result" "$note" | tee -a "$table"
done
(cd "$work/tree" && bazel shutdown)
echo
cat "$table"
exit "$missed"
