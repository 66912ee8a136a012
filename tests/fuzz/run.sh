#!/usr/bin/env bash
# Builds every fuzz target with Clang and its sanitizers, runs each for a while
# from its corpus, and closes with one line: N passed, N failed, 0 skipped.
#
#   tests/fuzz/run.sh [--seconds=60] [--only=REGEX] [--out=DIR]
#
#   --seconds   time for each target
#   --only      targets whose name matches
#   --out       where inputs that failed and new corpus files go; default: a
#               temporary folder, kept if something failed
#
# A failed input is repeated with: PROGRAM FILE. Inputs that reach new code are
# worth keeping below tests/fuzz/corpus/ (libFuzzer's -merge=1 finds them).
set -euo pipefail

seconds=60 only=. out=
for argument in "$@"; do
  case "$argument" in
    --seconds=[0-9]*) seconds=${argument#*=} ;;
    --only=?*) only=${argument#*=} ;;
    --out=?*) out=${argument#*=} ;;
    --help)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
      exit 0
      ;;
    *)
      echo "tests/fuzz/run.sh: unknown argument '$argument' (--help)" >&2
      exit 2
      ;;
  esac
done
cd "$(dirname "$0")/../.."
deploy/install_deps.sh --fuzz

keep=1
if [ -z "$out" ]; then
  out=$(mktemp -d)
  keep=0
fi
mkdir -p "$out"
out=$(realpath "$out")

names=()
for source in tests/fuzz/*_fuzz.cc; do
  name=$(basename "$source" .cc)
  [[ $name =~ $only ]] && names+=("$name")
done
bazel build --config=fuzz "${names[@]/#///tests/fuzz:}" >&2
bin=$(bazel info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz

passed=0 failed=0
for name in "${names[@]}"; do
  corpus=tests/fuzz/corpus/${name%_fuzz}
  mkdir -p "$out/$name"
  status=0
  # What the target logs is of interest only when it fails.
  "$bin/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2560 \
    -print_final_stats=1 -artifact_prefix="$out/$name-" \
    "$out/$name" "$corpus" >"$out/$name.log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name.log")
  if [ "$status" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
    passed=$((passed + 1))
    echo "$name: $runs runs in $seconds s"
  else
    failed=$((failed + 1))
    keep=1
    echo "$name: FAILED (status $status); $out/$name.log ends with:"
    tail -n 40 "$out/$name.log"
  fi
done
[ "$keep" -eq 1 ] || rm -rf "$out"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
