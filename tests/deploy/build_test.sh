#!/usr/bin/env bash
# deploy/build.sh shows steps and time, hides warnings, and shows errors; with a
# Bazel that only talks.
set -euo pipefail
build=$PWD/deploy/build.sh
mkdir -p "$TEST_TMPDIR/bin" "$TEST_TMPDIR/logs"
export PATH=$TEST_TMPDIR/bin:$PATH TMPDIR=$TEST_TMPDIR/logs

fail() {
  echo "FAILED: $1" >&2
  printf '%s\n' "$said" >&2
  exit 1
}

# A Bazel that prints the lines of $TEST_TMPDIR/says and exits as the first
# argument of bazel_says tells it to.
bazel_says() {
  cat >"$TEST_TMPDIR/says"
  printf '#!/bin/sh\ncat "%s" >&2\nexit %s\n' "$TEST_TMPDIR/says" "$1" \
    >"$TEST_TMPDIR/bin/bazel"
  chmod +x "$TEST_TMPDIR/bin/bazel"
}

bazel_says 0 <<'LINES'
INFO: Analyzed 4 targets (45 packages loaded).
[58 / 1,178] Compiling client/a.cc; 7s local
INFO: From Compiling tests/b.cc:
tests/b.cc:3: warning: unused variable
INFO: Build completed successfully, 618 total actions
LINES
said=$("$build" //a 2>&1) || fail "a build that succeeds"
[[ $said == *"Building: 58 of 1,178 steps, 0s"* ]] || fail "steps are shown"
[[ $said == *"Built in "* ]] || fail "the end is shown"
[[ $said != *warning* ]] || fail "warnings are not shown"
[ -z "$(ls "$TMPDIR")" ] || fail "the log of a good build is removed"

bazel_says 1 <<'LINES'
[58 / 178] Compiling client/a.cc; 7s local
ERROR: client/BUILD:3:1: Compiling client/a.cc failed
client/a.cc:9: error: expected ;
FAILED: Build did NOT complete successfully
LINES
said=$("$build" //a 2>&1) && fail "a build that fails"
[[ $said == *"client/a.cc:9: error: expected ;"* ]] || fail "errors are shown"
[[ $said != *"Built in"* ]] || fail "a failed build is not called built"
log=$(sed -n 's/.*whole output is in //p' <<<"$said")
grep -q "Compiling client/a.cc; 7s" "$log" || fail "the log is kept"

said=$("$build" --help)
[[ $said == *"deploy/build.sh TARGET"* ]] || fail "help"
said=$("$build" 2>&1) && fail "no target is an error"
echo "passed"
