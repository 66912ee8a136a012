#!/usr/bin/env bash
# Builds targets with Bazel and says how far it is: steps done, steps known so
# far, and the time since the start. What the compiler says is shown only if the
# build fails; all of it is in the log that is named then.
#
#   deploy/build.sh TARGET...
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "" | -h | --help)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    [ -n "${1:-}" ] && exit 0
    exit 2
    ;;
esac

log=$(mktemp "${TMPDIR:-/tmp}/comera-build.XXXXXX")
interval=15 line_start='' line_end='\n'
[ -t 2 ] && interval=2 line_start='\r\033[K' line_end=''

elapsed() {
  if [ "$SECONDS" -lt 60 ]; then
    echo "${SECONDS}s"
  else
    printf '%dm%02ds' $((SECONDS / 60)) $((SECONDS % 60))
  fi
}

# Bazel's progress becomes one line that changes; from the first error on,
# everything is shown as it comes.
show() {
  local line failed=
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9,]+)\ /\ ([0-9,]+)\] ]]; then
      printf "${line_start}Building: %s of %s steps, %s$line_end" \
        "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$(elapsed)"
      continue
    fi
    if [[ $line == ERROR:* ]]; then failed=yes; fi
    if [ -n "$failed" ]; then printf "$line_start%s\n" "$line"; fi
  done
  if [ -z "$failed" ]; then printf "${line_start}Built in %s.\n" "$(elapsed)"; fi
}

if ! bazel build --color=no --curses=no \
  --show_progress_rate_limit="$interval" "$@" 2>&1 | tee "$log" | show >&2; then
  echo "deploy/build.sh: the build failed; its whole output is in $log" >&2
  exit 1
fi
rm -f "$log"
