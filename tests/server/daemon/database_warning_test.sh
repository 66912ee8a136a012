#!/usr/bin/env bash
# A coordinator warns of a database on another machine whose connection does not
# prove who answers. Ending it while it waits for that database ends it cleanly.
set -euo pipefail
server=$1

# log_of URL: what the coordinator logs until it tries the database again.
log_of() {
  local log pid begin code=0
  log=$(mktemp "$TEST_TMPDIR/log.XXXXXX")
  # .invalid is no machine's name, whatever the network is.
  "$server" --listen=127.0.0.1:0 --http_listen=none \
    --data_dir="$(mktemp -d "$TEST_TMPDIR/data.XXXXXX")" --store="$1" \
    2>"$log" &
  pid=$!
  # The time limit of the test ends a coordinator that never says so.
  tail --pid="$pid" -n +1 -f "$log" | grep -m 1 'event=start_again' >&2
  kill -TERM "$pid"
  begin=$SECONDS
  wait "$pid" || code=$?
  # By itself it would go on for half a minute.
  ((SECONDS - begin < 15)) || code=late
  echo "exit status $code" >>"$log"
  cat "$log"
}

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

warning=event=database_not_verified
open=$(log_of 'postgres://db.invalid/comera?sslmode=require')
grep -q "$warning" <<<"$open" || fail "no warning: $open"
verified=$(log_of 'postgres://db.invalid/comera?sslmode=verify-full')
if grep -q "$warning" <<<"$verified"; then fail "a warning: $verified"; fi
for log in "$open" "$verified"; do
  grep -q 'exit status 1$' <<<"$log" || fail "another end: $log"
done
