#!/usr/bin/env bash
# Packs programs and the libraries they need into a folder that runs on another
# x86-64 Linux machine: not the C library, whose newer versions serve, and not
# CUDA's libraries, which with_cuda.sh finds there.
#
#   pack_programs.sh --to=FOLDER [--from=FOLDER] PROGRAM...
#
# FROM/a/b/program becomes TO/bin/a/b/program, stripped; libraries lie in
# TO/deploy/lib beside with_cuda.sh.
set -euo pipefail

from=. to="" programs=()
for argument; do
  case "$argument" in
    --to=?*) to=${argument#*=} ;;
    --from=?*) from=${argument#*=} ;;
    -*)
      echo "pack_programs.sh: unknown argument '$argument'" >&2
      exit 2
      ;;
    *) programs+=("$argument") ;;
  esac
done
if [ -z "$to" ] || [ ${#programs[@]} -eq 0 ]; then
  echo "pack_programs.sh: --to=FOLDER and programs are needed" >&2
  exit 2
fi
mkdir -p "$to/deploy/lib"
cp -L "$(dirname "$0")/with_cuda.sh" "$to/deploy/"

# NAME PATH of each library that programs load, from what ldd prints.
loaded() {
  local each
  for each; do ldd "$each"; done | sed -nE 's/^\t([^ ]+) => (.*) \(0x.*/\1 \2/p; s/^\t([^ ]+) => not found$/\1 -/p' |
    sort -u
}

for program in "${programs[@]}"; do
  mkdir -p "$to/bin/$(dirname "$program")"
  strip -o "$to/bin/$program" "$from/$program"
done
absent=()
while read -r name path; do
  case "$name" in
    libc.so.* | libm.so.* | libmvec.so.* | libdl.so.* | librt.so.* | \
      libpthread.so.* | libresolv.so.* | libutil.so.*) ;;
    libcublas* | libnccl* | libcuda* | libnvidia*) ;;
    libstdc++.so.* | libgcc_s.so.* | libgomp.so.*)
      mkdir -p "$to/deploy/lib/if_missing/$name"
      cp -L "$path" "$to/deploy/lib/if_missing/$name/$name"
      ;;
    *)
      if [ "$path" = - ]; then
        absent+=("$name")
      else
        cp -L "$path" "$to/deploy/lib/$name"
      fi
      ;;
  esac
done < <(cd "$from" && loaded "${programs[@]}")
if [ ${#absent[@]} -gt 0 ]; then
  echo "pack_programs.sh: not found on this machine: ${absent[*]}" >&2
  exit 1
fi
