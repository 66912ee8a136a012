#!/usr/bin/env bash
# Builds Debian packages from what is built already: comera-server,
# comera-worker (with comera-trainer), comera-client, comera, which asks for these
# three, and python3-comera. Needs debhelper; no root.
#
#   bazel build //client:comera //server:comera-server //worker:comera-worker \
#     //worker/trainer:comera-trainer //deploy/man:man_pages //client/python:comera
#   build.sh --out=FOLDER [--programs=FOLDER] [--man=FILE] [--python=FOLDER]
#            [--revision=1] [--cuda=FOLDER]
#
#   --programs  where the four programs are; default: bazel-bin of this checkout
#   --man       //deploy/man:man_pages; default: that of bazel-bin, if it is there
#   --python    the folder that holds the Python package `comera`; default:
#               client/python of this checkout, with the stubs of bazel-bin, or
#               those that client/python/generate_stubs.sh put in place
#   --cuda      programs of --config=cuda; CUDA's libraries are in FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() {
  echo "build.sh: $*" >&2
  exit 1
}

out="" programs="" man=$root/bazel-bin/deploy/man/man_pages.tar revision=1
python="" cuda=""
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
mkdir -p "$out" "$tree"/{debian,programs,etc,share/slurm,share/systemd,completions,examples}
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
cp -L "$root/deploy/systemd/member-user.conf" "$tree/share/systemd/"
cp -L "$root"/docs/examples/*.yaml "$tree/examples/"
"$client" completion bash >"$tree/completions/comera"
"$client" completion zsh >"$tree/completions/_comera"
"$client" completion fish >"$tree/completions/comera.fish"
# Each page goes to the package of its program.
mkdir "$work/man"
[ ! -e "$man" ] || tar --extract --file="$man" --directory="$work/man"
for page in "$work"/man/man[18]/*; do
  [ -e "$page" ] || continue
  name=${page##*/}
  cp "$page" "$tree/debian/"
  case "$name" in
    comera-server.*) package=comera-server ;;
    comera-worker.* | comera-trainer.*) package=comera-worker ;;
    *) package=comera-client ;;
  esac
  echo "debian/$name" >>"$tree/debian/$package.manpages"
done
stubs=""
if [ -z "$python" ]; then
  python=$root/client/python
  stubs=$root/bazel-bin/client/python/comera/_proto
fi
if [ -d "$python/comera" ]; then
  mkdir "$tree/python"
  cp -rL "$python/comera" "$tree/python/"
  if [ -d "$stubs" ]; then
    rm -rf "$tree/python/comera/_proto"
    cp -rL "$stubs" "$tree/python/comera/"
  fi
  [ -e "$tree/python/comera/_proto/__init__.py" ] ||
    fail "build //client/python:comera, or run client/python/generate_stubs.sh"
  # What docs/examples/own_program.yaml runs, and the other examples.
  mkdir -p "$tree/python/examples"
  cp -L "$root"/client/python/examples/*.py "$tree/python/examples/"
  find "$tree/python" -name __pycache__ -prune -exec rm -rf {} +
  find "$tree/python" -type f -exec chmod 644 {} +
else
  # Where the files are missing, there is no such package.
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
