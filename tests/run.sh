#!/usr/bin/env bash
# Installs what is missing, builds and runs tests and closes with one line:
# N passed, N failed, N skipped (test cases; a target that does not build or
# crashes counts as one failure more).
#
#   tests/run.sh [--minutes=N]
#                           every test but those tagged slow, which take minutes
#                           to run or to compile: first golden/ and e2e/, then
#                           the others, until N minutes (50) have passed since
#                           the start. What was not reached counts as skipped
#   tests/run.sh --all      without a limit, builds everything, benchmarks too, and runs every
#                           test. Where the CUDA toolkit is, everything that
#                           holds CUDA is also built with --config=cuda (one
#                           case) and the kernels' registers and machine code
#                           are checked, for sm_90 only; tests that need a GPU
#                           are run by tests/gpu/run.sh
#   tests/run.sh --asan     unit and integration tests under AddressSanitizer
#                           and UndefinedBehaviorSanitizer
#   tests/run.sh --tsan     the same under ThreadSanitizer, but for what
#                           tests/tsan_suppressions.txt names
#                           (both take targets: --tsan //tests/client/...)
#   tests/run.sh --thread_safety  Clang's thread safety analysis, which runs
#                           nothing (tests/thread_safety/check.sh)
#   tests/run.sh --fuzz     every fuzz target for a minute, with Clang; other
#                           arguments go to tests/fuzz/run.sh
#   tests/run.sh --chaos    five minutes of random faults; other arguments go to
#                           tests/e2e/chaos.sh (every test run has a minute)
#   tests/run.sh --upgrade  the programs of the commit before beside those of
#                           this one; another argument goes to
#                           tests/e2e/upgrade.sh
#
# COMERA_SHARED_DIR names the folder with golden/ and data/; default: shared/
# beside the checkout. Tests that need it are skipped, and say so, without it.
# COMERA_OLDER_PROGRAMS names a folder with the programs of an earlier version
# (comera, comera-server, comera-worker, comera-trainer), which tests/e2e/upgrade.sh
# then runs beside these. Default: those that an earlier run at one of the last
# 200 commits kept in ~/.cache/comera/programs; without any, that is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

flags=() targets=(//...) all="" minutes=50
# What no test needs is built by --all only.
selection=(--build_tests_only --test_tag_filters=-slow)
case "${1:-}" in
  "") ;;
  --minutes=*)
    minutes=${1#*=}
    if ! [[ $minutes =~ ^[1-9][0-9]{0,3}$ ]]; then
      echo "tests/run.sh: --minutes takes a number from 1 to 9999, not '$minutes'" >&2
      exit 2
    fi
    ;;
  --all) all=1 selection=() ;;
  --asan) flags=(--config=asan) selection=(--build_tests_only) ;;
  --tsan)
    tsan=halt_on_error=1:second_deadlock_stack=1:ignore_noninstrumented_modules=1
    tsan+=:suppressions=$PWD/tests/tsan_suppressions.txt
    flags=(--config=tsan --test_env=TSAN_OPTIONS="$tsan")
    selection=(--build_tests_only)
    ;;
  --thread_safety) exec tests/thread_safety/check.sh "${@:2}" ;;
  --fuzz) exec tests/fuzz/run.sh "${@:2}" ;;
  --chaos) exec tests/e2e/chaos.sh "${@:2}" ;;
  --upgrade) exec tests/e2e/upgrade.sh "${@:2}" ;;
  -h | --help)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    exit 0
    ;;
  *)
    echo "tests/run.sh: unknown argument '$1' (--help)" >&2
    exit 2
    ;;
esac

if [ ${#flags[@]} -gt 0 ] && [ $# -gt 1 ]; then
  targets=("${@:2}")
elif [ $# -gt 1 ]; then
  echo "tests/run.sh: unknown argument '$2' (--help)" >&2
  exit 2
fi

deploy/install_deps.sh --tests

if [ -z "${COMERA_SHARED_DIR:-}" ] && [ -d ../shared ]; then
  COMERA_SHARED_DIR=$(cd ../shared && pwd)
fi
export COMERA_SHARED_DIR=${COMERA_SHARED_DIR:-}

# npm's packages that could not be had once are asked for again: Bazel would
# keep their absence.
external=$(bazel info output_base 2>/dev/null)/external
for installed in "$external"/*_npm/installed; do
  grep -qs '^absent' "$installed" || continue
  repository=${installed%/installed}
  bazel sync --only="${repository##*/}" >&2 || true
done

log=$(mktemp)
trap 'rm -f "$log" "$log.first"' EXIT
passed=0 failed=0 skipped=0

# run_bazel COMMAND ARGUMENT...: into $log, its exit status as the result. With
# $seconds, it is interrupted after so many, and the result is 124.
seconds=
run_bazel() {
  local command=$1 limit=()
  shift
  [ -z "$seconds" ] || limit=(timeout --foreground --signal=INT "$seconds")
  "${limit[@]}" bazel "$command" --keep_going --color=no --curses=no \
    --show_progress_rate_limit=20 "$@" 2>&1 | tee "$log"
}

# Adds the cases of each target in $log, out of its test.xml.
count_cases() {
  local testlogs target result xml cases bad skips
  testlogs=$(bazel info "${flags[@]}" bazel-testlogs 2>/dev/null)
  while read -r target result; do
    xml="$testlogs/${target#//}"
    xml="${xml//://}/test.xml"
    cases=0 bad=0 skips=0
    if [ -r "$xml" ] && grep -q '<testsuites[^>]* tests=' "$xml"; then
      cases=$(sed -n 's/.*<testsuites[^>]* tests="\([0-9]*\)".*/\1/p;T;q' "$xml")
      bad=$(sed -n 's/.*<testsuites[^>]* failures="\([0-9]*\)".*/\1/p;T;q' "$xml")
      skips=$(grep -c '<skipped' "$xml" || true)
    elif [ "$result" = PASSED ]; then
      cases=1
    fi
    [ "$result" = PASSED ] || [ "$bad" -gt 0 ] || bad=1
    [ "$bad" -le "$cases" ] || cases=$bad
    passed=$((passed + cases - bad - skips))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
  done < <(sed -nE 's/^(\/\/[^ ]+) +(\(cached\) )?(PASSED|FLAKY|FAILED TO BUILD|FAILED|TIMEOUT|NO STATUS|REMOTE FAILURE|INCOMPLETE).*/\1 \3/p' "$log" | sort -u)
}

# Counts what an interruption left: tests that were built and did not run have no
# status, those that were not built are not listed.
count_unreached() {
  local all ended
  all=$(bazel query \
    "tests(//...) except attr(tags, '\b(slow|manual)\b', //...)" 2>/dev/null | wc -l)
  sed -i '/ NO STATUS$/d' "$log"
  ended=$(sed -nE 's/^(\/\/[^ ]+) +(\(cached\) )?(PASSED|FLAKY|FAILED|TIMEOUT|SKIPPED).*/\1/p' "$log" |
    sort -u | wc -l)
  unreached=$((all - ended))
  skipped=$((skipped + unreached))
}

status=0 unreached=0
if [ ${#flags[@]} -gt 0 ] || [ -n "$all" ]; then
  run_bazel test "${flags[@]}" "${selection[@]}" "${targets[@]}" || status=$?
else
  # What shows most of the whole comes first, without a limit.
  run_bazel test "${selection[@]}" //tests/golden/... //tests/e2e/... || status=$?
  cp "$log" "$log.first"
  seconds=$((60 * minutes - SECONDS))
  rest=0
  if [ "$seconds" -lt 60 ]; then
    rest=124  # not even enough to load the targets
    : >"$log"
  else
    run_bazel test "${selection[@]}" "${targets[@]}" || rest=$?
  fi
  seconds=
  cat "$log.first" >>"$log"
  if [ "$rest" -eq 124 ]; then
    count_unreached
    # The list lacks a test that did not compile; its error is in the log.
    ! grep '^ERROR: ' "$log" | grep -Ev "interrupted|Couldn't start the build" || status=1
  elif [ "$rest" -ne 0 ]; then
    status=$rest
  fi
fi
count_cases
if [ $((passed + failed)) -eq 0 ]; then
  echo "tests/run.sh: no test ran" >&2
  failed=1
fi
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
  failed=1  # the build itself failed before any test target was named
fi

cuda="CUDA: only --all compiles it"
cuda_flags=(--config=cuda --define=comera_cuda_one=1)
if [ -n "$all" ]; then
  # What the repository rule found; docs/building.md, "CUDA".
  found="$(bazel info output_base 2>/dev/null)/external/local_cuda/defs.bzl"
  version=$(sed -n 's/^CUDA_VERSION = "\(.*\)"/\1/p' "$found" || true)
  if [ -z "$version" ]; then
    cuda="CUDA toolkit not found: the CUDA backend was not compiled"
  elif run_bazel build "${cuda_flags[@]}" //kernels/... //worker/... \
      //tests/bench/... //tests/gpu/...; then
    passed=$((passed + 1))
    cuda="CUDA $version: built with --config=cuda, warnings are errors; "
    before=$failed
    run_bazel test "${cuda_flags[@]}" \
      //tests/gpu:check_resources //tests/gpu:check_machine_code || true
    count_cases
    if [ "$failed" -eq "$before" ]; then
      cuda+="no hot kernel spills registers, every kernel waits for those before it"
    else
      cuda+="FAILED: the checks above"
    fi
  else
    failed=$((failed + 1))
    cuda="CUDA $version: FAILED to build with --config=cuda"
  fi
fi

# Upgrades. A build of the commit before would double the time, so its programs
# are those that its own run has kept.
upgrade="upgrade: not checked with a sanitizer"
kept=${XDG_CACHE_HOME:-$HOME/.cache}/comera/programs
if [ ${#flags[@]} -eq 0 ]; then
  older=${COMERA_OLDER_PROGRAMS:-}
  if [ -z "$older" ]; then
    for commit in $(git rev-list --max-count=200 HEAD^ 2>/dev/null || true); do
      [ -d "$kept/$commit" ] && older=$kept/$commit && break
    done
  fi
  if [ -z "$older" ]; then
    skipped=$((skipped + 1))
    upgrade="upgrade: not checked, no earlier version's programs are here (COMERA_OLDER_PROGRAMS)"
  elif tests/e2e/upgrade.sh "$older"; then
    passed=$((passed + 1))
    upgrade="upgrade: works beside $older"
  else
    failed=$((failed + 1))
    upgrade="upgrade: FAILED beside $older"
  fi
  # The next commits' runs use these programs; those of the last three stay.
  if [ "$failed" -eq 0 ] && [ -z "$(git status --porcelain 2>&1)" ]; then
    programs=$kept/$(git rev-parse HEAD)
    mkdir -p "$programs"
    cp -fL bazel-bin/client/comera bazel-bin/server/comera-server \
      bazel-bin/worker/comera-worker \
      bazel-bin/worker/trainer/comera-trainer "$programs"
    find "$kept" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn |
      tail -n +4 | cut -d' ' -f2- | xargs -r -d '\n' rm -rf
  fi
fi
if [ ${#flags[@]} -eq 0 ] && [ -z "$all" ]; then
  slow=$(bazel query "attr(tags, '\bslow\b', tests(//...))" 2>/dev/null | wc -l)
  echo "left to tests/run.sh --all: benchmarks and $slow targets tagged slow"
  if [ "$unreached" -gt 0 ]; then
    echo "not reached in $minutes minutes: $unreached test targets"
  fi
fi
echo "$cuda"
echo "$upgrade"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
