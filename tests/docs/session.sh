# shellcheck shell=bash
# The shell that a page's blocks run in. run_page.py sources it, then the
# page's script, whose lines are the page's: bash's own line numbers are right.
# Needs DOCS_PAGE (its name), DOCS_WORK (a private folder), DOCS_LOG, DOCS_TESTS
# (this folder).

set -eE -o pipefail

# docs_failed STATUS LINE COMMAND: of the ERR trap.
docs_failed() {
  local status=$1 line=$2 command=$3 level=0 caller_line caller_file
  # The innermost line of the page itself.
  while read -r caller_line _ caller_file < <(caller "$level"); do
    if [ "$caller_file" = "$DOCS_WORK/$DOCS_PAGE" ]; then
      line=$caller_line
      break
    fi
    level=$((level + 1))
  done
  echo "$DOCS_PAGE:$line: exit $status: $command" >&2
  echo "$DOCS_PAGE:$line: exit $status: $command" >>"$DOCS_WORK/failures"
}
trap 'docs_failed $? $LINENO "$BASH_COMMAND"' ERR

docs_block() {
  DOCS_OFFSET=$(stat -c %s "$DOCS_LOG")
  echo "--- $DOCS_PAGE:$1"
}

docs_skip() {
  echo "$DOCS_PAGE:$1: SKIPPED: $2" | tee -a "$DOCS_WORK/skips"
}

# docs_needs LINE COMMAND
docs_needs() {
  if (trap - ERR; set +eE; eval "$2") >/dev/null 2>&1; then
    return 0
  fi
  docs_skip "$1" "needs: $2"
  return 1
}

# docs_python LINE FIRST LAST
docs_python() {
  local status
  if [ ! -p "$DOCS_WORK/answers" ]; then
    mkfifo "$DOCS_WORK/requests" "$DOCS_WORK/answers"
    /usr/bin/python3 -u "$DOCS_TESTS/python_session.py" "$DOCS_WORK/$DOCS_PAGE.py" \
      "$DOCS_WORK/requests" "$DOCS_WORK/answers" &
  fi
  env -0 >"$DOCS_WORK/answers.environment"
  echo "$2 $3 $PWD" >"$DOCS_WORK/requests"
  read -r status <"$DOCS_WORK/answers"
  return "$status"
}

# docs_job LINE BASE ARGUMENT...: the part of a job file on standard input.
docs_job() {
  docs_block "$1"
  "$DOCS_TESTS/overlay_job.py" "$2" >"$DOCS_WORK/job.yaml"
  comera validate "$DOCS_WORK/job.yaml" "${@:3}"
}

# docs_wait COMMAND: until it works, for a minute.
docs_wait() {
  local deadline=$((SECONDS + 60))
  until (trap - ERR; set +eE; eval "$1") >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "still not so after 60 s: $1" >&2
      return 1
    fi
    sleep 0.1
  done
}

# docs_expect REGEX: in what was printed since the last block began.
docs_expect() {
  if ! tail -c "+$((DOCS_OFFSET + 1))" "$DOCS_LOG" >"$DOCS_WORK/printed" ||
    ! grep -qE -- "$1" "$DOCS_WORK/printed"; then
    echo "the output of the block above has no /$1/" >&2
    return 1
  fi
}
