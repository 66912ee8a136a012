#!/usr/bin/env bash
# The manual pages are all there, and groff and mandoc find nothing wrong.
set -euo pipefail
pages=$TEST_TMPDIR/pages
mkdir -p "$pages"
tar --extract --file=deploy/man/man_pages.tar --directory="$pages"
for page in man1/comera.1 man1/comera-watch.1 man1/comera-export.1 \
  man1/comera-trainer.1 man8/comera-server.8 man8/comera-worker.8; do
  [ -s "$pages/$page" ] || { echo "$page is missing"; exit 1; }
done
grep -q 'comera\\-watch' "$pages/man1/comera.1"
grep -q 'listen' "$pages/man8/comera-server.8"
if grep -rlE "/(tmp|root|work|home)/" "$pages"; then
  echo "a page names a folder of the machine that built it"
  exit 1
fi
status=0
if command -v groff >/dev/null; then
  for page in "$pages"/man?/*; do
    if [ -n "$(groff -man -ww -Tutf8 -z "$page" 2>&1 | tee /dev/stderr)" ]; then
      status=1
    fi
  done
else
  echo "SKIPPED: groff is not installed (groff-base)"
fi
if command -v mandoc >/dev/null; then
  # Pages have no date: they are made anew by every build.
  if mandoc -T lint -W warning "$pages"/man?/* | grep -v "missing date"; then
    status=1
  fi
else
  echo "SKIPPED: mandoc is not installed"
fi
exit $status
