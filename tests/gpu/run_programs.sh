#!/usr/bin/env bash
# Runs GoogleTest programs one after the other and adds up their cases.
#
#   run_programs.sh --out=DIR [--seconds=N] [--shared=DIR] < LIST
#
# A line of LIST: PROGRAM SECONDS [WORD...]; # starts a comment. A program gets
# SECONDS at most, all together --seconds (default 460). Words:
#   shared            it needs --shared, the folder with golden/ and data/; counts
#                     as one case skipped without it
#   sanitize=FILTER   afterwards, as one case more: its tests of FILTER under
#                     compute-sanitizer, where that is on the PATH and time is left
# Logs and results lie in DIR/NAME.log and .json. A program that crashes, hangs or
# finds no time left is one failure more. Closes with `N passed, N failed,
# N skipped`; exits 1 if something failed or nothing ran.
set -uo pipefail

out="" seconds=460 shared=""
for argument; do
  case "$argument" in
    --out=?*) out=${argument#*=} ;;
    --seconds=?*) seconds=${argument#*=} ;;
    --shared=*) shared=${argument#*=} ;;
    *)
      echo "run_programs.sh: unknown argument '$argument'" >&2
      exit 2
      ;;
  esac
done
if [ -z "$out" ]; then
  echo "run_programs.sh: --out is missing" >&2
  exit 2
fi
mkdir -p "$out"
deadline=$((SECONDS + seconds))
passed=0 failed=0 skipped=0
sanitized=()  # lines of LIST to come back to

# The first number of field $2 in JSON file $1: GoogleTest's totals come first.
field() {
  sed -n "s/^ *\"$2\": \([0-9]*\),\{0,1\}$/\1/p" "$1" | head -n 1
}

# Within what is left of the time; 0 if nothing is.
allowed() {
  local left=$((deadline - SECONDS))
  [ "$left" -lt "$1" ] && echo $((left > 0 ? left : 0)) || echo "$1"
}

tell() {  # tell VERDICT NAME DETAIL
  printf '%-7s %-28s %s\n' "$1" "$2" "$3"
}

run_program() {
  local program=$1 limit name log json status begin
  name=$(basename "$program")
  limit=$(allowed "$2")
  log=$out/$name.log json=$out/$name.json
  rm -f "$log" "$json"
  if [ ! -x "$program" ]; then
    failed=$((failed + 1))
    tell FAILED "$name" "no such program: $program"
    return
  fi
  if [ "$limit" -eq 0 ]; then
    failed=$((failed + 1))
    tell FAILED "$name" "not run: the time of all programs is up"
    return
  fi
  begin=$SECONDS status=0
  timeout -k 5 "$limit" "$program" --gtest_color=no \
    --gtest_output="json:$json" >"$log" 2>&1 </dev/null || status=$?
  local cases=0 bad=0 skips=0 why=""
  if [ -s "$json" ]; then
    cases=$(($(field "$json" tests) - $(field "$json" disabled)))
    bad=$(field "$json" failures)
    skips=$(grep -c '"result": "SKIPPED"' "$json")
    if [ "$cases" -eq 0 ]; then
      why="no test ran"
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
      why="exit status $status"
    fi
  else
    # Died before its results: what the log tells, and the death itself.
    cases=$(grep -cE '^\[ +(OK|FAILED|SKIPPED) +\] .*\([0-9]+ ms\)$' "$log")
    bad=$(grep -cE '^\[ +FAILED +\] .*\([0-9]+ ms\)$' "$log")
    skips=$(grep -cE '^\[ +SKIPPED +\] .*\([0-9]+ ms\)$' "$log")
    why="exit status $status"
    [ "$status" -eq 124 ] && why="time-out after $limit s"
    why+=" in $(sed -n 's/^\[ RUN *\] //p' "$log" | tail -n 1)"
  fi
  if [ -n "$why" ]; then
    cases=$((cases + 1))
    bad=$((bad + 1))
  fi
  passed=$((passed + cases - bad - skips))
  failed=$((failed + bad))
  skipped=$((skipped + skips))
  local detail="$((cases - bad - skips)) passed, $bad failed, $skips skipped"
  detail+=", $((SECONDS - begin)) s${why:+: $why}"
  if [ "$bad" -gt 0 ]; then
    tell FAILED "$name" "$detail"
    # Each failed test, from its beginning, 25 lines at most.
    awk '/^\[ RUN /{text=""; n=0} n++ < 25 {text = text $0 "\n"}
      /^\[ +FAILED +\] .*\([0-9]+ ms\)$/{printf "%s", text}' "$log" | head -n 80
    [ -z "$why" ] || tail -n 15 "$log"
    echo "        the whole log: $log"
  else
    tell PASSED "$name" "$detail"
  fi
  if [ "$skips" -gt 0 ]; then
    sed -n '/: Skipped$/{n;s/^/        /p}' "$log" | sort -u | head -n 5
  fi
}

sanitize() {
  local program=$1 limit=$2 filter=$3 name log status=0
  name=$(basename "$program")
  log=$out/$name.sanitizer.log
  limit=$(allowed "$limit")
  if ! command -v compute-sanitizer >/dev/null; then
    skipped=$((skipped + 1))
    tell SKIPPED "$name (sanitizer)" "compute-sanitizer is not on the PATH"
    return
  fi
  if [ "$limit" -gt 0 ]; then
    timeout -k 5 "$limit" compute-sanitizer --tool=memcheck --leak-check=full \
      --error-exitcode=86 "$program" --gtest_color=no \
      --gtest_filter="$filter" >"$log" 2>&1 </dev/null || status=$?
  else
    status=124
  fi
  case "$status" in
    0)
      passed=$((passed + 1))
      tell PASSED "$name (sanitizer)" "$filter"
      ;;
    124)
      skipped=$((skipped + 1))
      tell SKIPPED "$name (sanitizer)" "not done within the time"
      ;;
    *)
      failed=$((failed + 1))
      tell FAILED "$name (sanitizer)" "exit status $status: $log"
      grep -m 20 '=========' "$log"
      ;;
  esac
}

while read -r program limit words; do
  case "$program" in "" | \#*) continue ;; esac
  if [[ " $words " == *" shared "* ]] && [ -z "$shared" ]; then
    skipped=$((skipped + 1))
    tell SKIPPED "$(basename "$program")" "needs --shared"
    continue
  fi
  COMERA_SHARED_DIR=$shared run_program "$program" "$limit"
  for word in $words; do
    case "$word" in
      sanitize=*) sanitized+=("$program $limit ${word#*=}") ;;
    esac
  done
done
for line in ${sanitized[@]+"${sanitized[@]}"}; do
  # shellcheck disable=SC2086
  sanitize $line
done

if [ $((passed + failed)) -eq 0 ]; then
  echo "run_programs.sh: no test ran" >&2
  failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
