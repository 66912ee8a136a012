#!/usr/bin/env bash
# run_programs.sh adds up programs that pass, fail, skip, crash and hang.
set -uo pipefail
script=$PWD/tests/gpu/run_programs.sh
fixture=$PWD/tests/gpu/run_programs_fixture
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
problems=0

# check NAME 'LAST LINE' STATUS ARGUMENT... <LIST; the output stays in `output`.
check() {
  local name=$1 line=$2 want=$3 got=0
  shift 3
  output=$("$script" --out="$work/out" "$@" 2>&1) || got=$?
  if [ "$(tail -n 1 <<<"$output")" != "$line" ] || [ "$got" -ne "$want" ]; then
    printf '%s: wanted "%s", status %s; got status %s and\n%s\n\n' \
      "$name" "$line" "$want" "$got" "$output"
    problems=$((problems + 1))
  fi
}
says() {  # says NAME TEXT
  if ! grep -qF -- "$2" <<<"$output"; then
    printf '%s: "%s" is not in\n%s\n\n' "$1" "$2" "$output"
    problems=$((problems + 1))
  fi
}
for name in Good Skips Bad GoodSkips GoodCrash GoodBadHang Hang Shared None \
  GoodExit7; do
  ln -s "$fixture" "$name"
done

check passes "2 passed, 0 failed, 0 skipped" 0 <<<"$work/Good 9"
check sums "4 passed, 1 failed, 1 skipped" 1 <<EOT
# a comment, and an empty line

$work/Good 9
$work/Bad 9
$work/GoodSkips 9
EOT
says "reason of a skip" "there is no second device"
says "text of a failure" "as it must"
check "only skipped" "0 passed, 1 failed, 1 skipped" 1 <<<"$work/Skips 9"
check crash "2 passed, 1 failed, 0 skipped" 1 <<<"$work/GoodCrash 9"
says crash "exit status 137 in Crash.One"
check time-out "2 passed, 2 failed, 0 skipped" 1 <<<"$work/GoodBadHang 1"
says time-out "time-out after 1 s in Hang.One"
check "no test" "0 passed, 1 failed, 0 skipped" 1 <<<"$work/None 9"
check "status without a failure" "2 passed, 1 failed, 0 skipped" 1 \
  <<<"$work/GoodExit7 9"
check "no program" "0 passed, 1 failed, 0 skipped" 1 <<<"$work/absent 9"
check "empty list" "0 passed, 1 failed, 0 skipped" 1 </dev/null
# Three seconds, because with one the time may be up before the first starts.
check "time of all" "2 passed, 2 failed, 0 skipped" 1 --seconds=3 <<EOT
$work/Good 9
$work/Hang 9
$work/Good 9
EOT
says "time of all" "the time of all programs is up"
check "without shared" "2 passed, 0 failed, 1 skipped" 0 <<EOT
$work/Good 9
$work/Shared 9 shared
EOT
says "without shared" "needs --shared"
check "with shared" "1 passed, 0 failed, 0 skipped" 0 --shared=/shared \
  <<<"$work/Shared 9 shared"

# A compute-sanitizer that finds errors where the filter names suite Bad.
mkdir bin
cat >bin/compute-sanitizer <<'EOT'
#!/bin/sh
echo "========= COMPUTE-SANITIZER $*"
case "$*" in *filter=Bad*) exit 86 ;; esac
EOT
chmod +x bin/compute-sanitizer
check "no sanitizer" "2 passed, 0 failed, 1 skipped" 0 \
  <<<"$work/Good 9 sanitize=Good.*"
PATH=$work/bin:$PATH
check "sanitizer content" "3 passed, 0 failed, 0 skipped" 0 \
  <<<"$work/Good 9 sanitize=Good.*"
check "sanitizer finds" "2 passed, 1 failed, 0 skipped" 1 \
  <<<"$work/Good 9 sanitize=Bad.*"
says "sanitizer finds" "exit status 86"

[ "$problems" -eq 0 ] && echo "all as wanted"
[ "$problems" -eq 0 ]
