#!/usr/bin/env bash
# Builds the dashboard into one archive.
#
#   build_dist.sh INSTALLED OUT.tar SOURCE...
#
#   INSTALLED   the file beside node_modules (deploy/bazel/npm)
#
# Without npm's packages the archive holds one page that says so: a coordinator
# can be built and used on machines that have no Node.
set -euo pipefail
installed=$(readlink -f "$1")
out=$(readlink -f "$(dirname "$2")")/$(basename "$2")
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/dist"

if grep -q '^absent' "$installed"; then
  {
    echo '<!doctype html><html lang="en"><title>comera</title>'
    echo '<h1>This server was built without its dashboard</h1><p>'
    sed 's/&/\&amp;/g; s/</\&lt;/g' "$installed"
    echo '</p></html>'
  } >"$work/dist/index.html"
else
  for source in "$@"; do
    target="$work/app/${source#*server/dashboard/}"
    mkdir -p "$(dirname "$target")"
    cp "$source" "$target"
  done
  ln -s "$(dirname "$installed")/node_modules" "$work/app/node_modules"
  export HOME=$work NODE_ENV=production
  cd "$work/app"
  node node_modules/typescript/bin/tsc --noEmit
  node node_modules/vite/bin/vite.js build --logLevel warn \
    --outDir "$work/dist" --emptyOutDir
fi

# The same content always gives the same bytes.
cd "$work/dist"
find . -type f -printf '%P\n' | LC_ALL=C sort |
  tar --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --mode=u=rw,go=r -T - -cf "$out"
