#!/usr/bin/env bash
# Packs the programs with every library but the C library's into a tarball that
# runs from any folder, as any user, on x86-64 Linux with a C library of Debian
# 12's age or newer.
#
#   tarball.sh --programs=FOLDER --debs=FOLDER --out=FOLDER
#
#   --programs  the four programs, without CUDA
#   --debs      the Debian packages, for manual pages, completions and examples
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() {
  echo "tarball.sh: $*" >&2
  exit 1
}

programs="" debs="" out=""
for argument; do
  value=${argument#*=}
  case "$argument" in
    --programs=?*) programs=$value ;;
    --debs=?*) debs=$value ;;
    --out=?*) out=$value ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
if [ -z "$programs" ] || [ -z "$debs" ] || [ -z "$out" ]; then
  fail "--programs, --debs and --out are needed"
fi
command -v patchelf >/dev/null || fail "patchelf is not installed"
version=$("$root/deploy/version.sh")
name=comera-$version-linux-$(uname -m)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=(comera comera-server comera-worker comera-trainer)
"$root/deploy/pack_programs.sh" --from="$programs" --to="$work/packed" \
  "${names[@]}"
tree=$work/$name
mkdir -p "$tree/lib" "$tree/share/doc/licenses"
cp -r "$work/packed/bin" "$tree/"
# Unlike in the GPU bundle nothing here is loaded from the machine but its C
# library, so the compiler's libraries are those that the others were built with.
find "$work/packed/deploy/lib" -type f -name '*.so*' -exec cp {} "$tree/lib/" \;
chmod 644 "$tree"/lib/*
for program in "${names[@]}"; do
  # Libraries inherit RPATH from the program, RUNPATH they would not.
  # shellcheck disable=SC2016
  patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$tree/bin/$program"
done
needed=$(ldd "$tree"/bin/comera* | grep -vE "linux-vdso|^[^[:space:]]|ld-linux" |
  grep -vE '^\s+lib(c|m|mvec|dl|rt|pthread|resolv|util)\.so' |
  grep -v " $tree/" || true)
[ -z "$needed" ] || fail "loaded from elsewhere: $needed"
glibc=$(objdump -T "$tree"/bin/* "$tree"/lib/* 2>/dev/null |
  grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)

for package in comera-client comera-server comera-worker; do
  dpkg-deb -x "$debs/${package}_"*.deb "$work/root"
done
cp -r "$work/root/usr/share/man" "$tree/share/"
for each in bash-completion zsh fish; do
  cp -r "$work/root/usr/share/$each" "$tree/share/"
done
cp -r "$work/root/usr/share/doc/comera-client/examples" "$tree/share/doc/"
cp -L "$root/deploy/tls.sh" "$tree/share/"
cp -L "$root/LICENSE" "$root/CHANGELOG.md" "$tree/"
# The licences of the libraries that lie here.
for library in "$tree"/lib/*; do
  path=$(ldconfig -p | sed -n "s/^\t${library##*/} .* => //p" | head -n 1)
  package=$(/usr/bin/python3 -B "$here/owners.py" "$path")
  cp -L "/usr/share/doc/${package%%:*}/copyright" \
    "$tree/share/doc/licenses/${package%%:*}"
done
cat >"$tree/README.txt" <<TEXT
comera $version for x86-64 Linux.

The programs in bin/ need the C library (glibc ${glibc#GLIBC_} or newer) and
nothing else; every other library is in lib/, where they look for it. Unpack the
folder anywhere, put its bin/ on the PATH, and keep the four programs together:

  tar xf $name.tar.xz
  export PATH=\$PWD/$name/bin:\$PATH
  comera run $name/share/doc/examples/dlrm_synthetic.yaml

There is no support for GPUs in these programs. share/doc/licenses has the
licence of each library.
TEXT
mkdir -p "$out"
tar -C "$work" --owner=0 --group=0 --numeric-owner --sort=name \
  --mtime="@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$programs/comera")}" \
  -c "$name" | XZ_OPT=${XZ_OPT:--6 -T1} xz >"$out/$name.tar.xz"
