#!/usr/bin/env bash
# Builds Debian packages from programs that are built already: comera-server,
# comera-worker (with comera-trainer), comera-client and, given the Python
# package, python3-comera. Needs debhelper; no root.
#
#   build.sh --out=FOLDER [--programs=FOLDER] [--man=FOLDER] [--python=FOLDER]
#            [--revision=1] [--cuda=FOLDER]
#
#   --programs  where the four programs are; default: bazel-bin of this checkout
#   --man       manual pages *.1, *.8; default: what the programs are asked for
#   --python    the folder that holds the Python package `comera`
#   --cuda      programs of --config=cuda; CUDA's libraries are in FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() {
  echo "build.sh: $*" >&2
  exit 1
}

out="" programs="" man="" python="" revision=1 cuda=""
for argument; do
  value=${argument#*=}
  case "$argument" in
    --out=?*) out=$value ;;
    --programs=?*) programs=$value ;;
    --man=?*) man=$value ;;
    --python=?*) python=$value ;;
    --revision=?*) revision=$value ;;
    --cuda=?*) cuda=$value ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
[ -n "$out" ] || fail "--out=FOLDER is needed"
command -v dh >/dev/null || fail "debhelper is not installed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/comera
mkdir -p "$out" "$tree"/{debian,programs,etc,share/slurm,completions,examples}
for program in client/comera server/comera-server worker/comera-worker \
  worker/trainer/comera-trainer; do
  from=${programs:+$programs/${program##*/}}
  cp -L "${from:-$root/bazel-bin/$program}" "$tree/programs/" ||
    fail "build the programs first"
  chmod 755 "$tree/programs/${program##*/}"
done
client=$tree/programs/comera

for file in "$here"/*; do
  case "$file" in
    */build.sh | */BUILD) ;;
    *) cp -L "$file" "$tree/debian/" ;;
  esac
done
chmod 644 "$tree"/debian/*
chmod 755 "$tree/debian/rules"
for name in server worker; do
  cp -L "$root/deploy/systemd/$name.env" "$tree/etc/"
  cp -L "$root/deploy/systemd/comera-$name.service" \
    "$tree/debian/comera-$name.service"
done
cp -L "$root/deploy/tls.sh" "$tree/share/"
cp -L "$root"/deploy/slurm/*.sh "$tree/share/slurm/"
cp -L "$root"/docs/examples/*.yaml "$tree/examples/"
"$client" completion bash >"$tree/completions/comera"
"$client" completion zsh >"$tree/completions/_comera"
"$client" completion fish >"$tree/completions/comera.fish"
# Each page goes to the package of its program.
for page in ${man:+"$man"/*.[18]}; do
  name=${page##*/}
  cp -L "$page" "$tree/debian/"
  case "$name" in
    comera-server.*) echo "debian/$name" >>"$tree/debian/comera-server.manpages" ;;
    comera-worker.* | comera-trainer.*)
      echo "debian/$name" >>"$tree/debian/comera-worker.manpages" ;;
    *) echo "debian/$name" >>"$tree/debian/comera-client.manpages" ;;
  esac
done
if [ -n "$python" ]; then
  mkdir "$tree/python"
  cp -rL "$python/comera" "$tree/python/"
  find "$tree/python" -name __pycache__ -prune -exec rm -rf {} +
  find "$tree/python" -type f -exec chmod 644 {} +
else
  # Without the files there is no such package.
  export DH_OPTIONS=-Npython3-comera
fi

version=$("$client" --version | grep -oE '[0-9]+(\.[0-9]+)+') ||
  fail "$client does not run here"
# The same input gives the same packages.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$client")}
maintainer=$(sed -n 's/^Maintainer: //p' "$here/control")
cat >"$tree/debian/changelog" <<TEXT
comera ($version-$revision${cuda:++cuda}) unstable; urgency=medium

  * Version $version.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
TEXT

# Programs of this build have no debugging symbols to keep apart.
export DEB_BUILD_OPTIONS="noautodbgsym nocheck" COMERA_CUDA=$cuda
(cd "$tree" && debian/rules binary) >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  fail "debian/rules fails"
}
for package in "$work"/*.deb; do
  cp "$package" "$out/"
  echo "$out/${package##*/}"
done
