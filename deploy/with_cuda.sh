#!/bin/sh
# Runs a program with this machine's CUDA libraries on its library path.
#
#   with_cuda.sh PROGRAM [ARGUMENT...]
#   with_cuda.sh --print     prints the library path instead
#
# Looks for cuBLAS 13 and NCCL in LD_LIBRARY_PATH, CUDA_HOME, the usual folders,
# the linker's cache, and the nvidia/* packages of python3. In a bundle
# (deploy/gpu_bundle.sh) the libraries packed with it come first.
# WITH_CUDA_ROOT is put before the usual folders (tests).
set -eu

needed="libcublas.so.13 libcublasLt.so.13 libnccl.so.2"
here=$(cd "$(dirname "$0")" && pwd)
root=${WITH_CUDA_ROOT:-}

case "${1:-}" in
  "" | --help)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    exit 2
    ;;
esac

# One per line, in the order of the search.
folders() {
  printf '%s\n' "${LD_LIBRARY_PATH:-}" | tr ':' '\n'
  for prefix in "${CUDA_HOME:-}" "$root/usr/local/cuda" \
    "$root"/usr/local/cuda-13* "$root/usr/lib/cuda" "$root/opt/cuda"; do
    [ -n "$prefix" ] || continue
    printf '%s\n' "$prefix/lib64" "$prefix/lib" \
      "$prefix/targets/x86_64-linux/lib"
  done
}
cached() {
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null || true
}
python_folders() {
  python3 -c '
import glob, os, sys
for folder in sys.path[1:]:
    for found in sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib"))):
        print(found)
' 2>/dev/null || true
}

path=""
add() {
  case ":$path:" in
    *":$1:"*) ;;
    *) path=$path${path:+:}$1 ;;
  esac
}

if [ -d "$here/lib" ]; then
  add "$here/lib"
  # Nearly every system has these in a newer version, which then counts.
  for each in "$here"/lib/if_missing/*; do
    [ -d "$each" ] || continue
    cached | grep -q "^[[:space:]]*$(basename "$each") " || add "$each"
  done
fi

missing=""
python_list=""
for library in $needed; do
  found=""
  # A here-document, not a pipe: `found` must outlive the loop.
  while read -r folder; do
    if [ -n "$folder" ] && [ -e "$folder/$library" ]; then
      found=$folder
      break
    fi
  done <<EOT
$(folders)
EOT
  if [ -n "$found" ]; then
    add "$found"
  elif ! cached | grep -q "^[[:space:]]*$library "; then
    [ -n "$python_list" ] || python_list=$(python_folders)
    while read -r folder; do
      if [ -n "$folder" ] && [ -e "$folder/$library" ]; then
        found=$folder
        break
      fi
    done <<EOT
$python_list
EOT
    if [ -n "$found" ]; then add "$found"; else missing="$missing $library"; fi
  fi
done
if [ -n "$missing" ]; then
  echo "with_cuda.sh: not found:$missing. Looked in LD_LIBRARY_PATH," \
    "CUDA_HOME, /usr/local/cuda, /usr/local/cuda-13*, /usr/lib/cuda," \
    "/opt/cuda, ldconfig, and nvidia/*/lib of python3. Set CUDA_HOME or" \
    "LD_LIBRARY_PATH, or: pip install nvidia-cublas nvidia-nccl-cu13" >&2
  exit 1
fi

# The path that was there before stays, behind.
old_ifs=$IFS
IFS=:
for each in ${LD_LIBRARY_PATH:-}; do
  [ -z "$each" ] || add "$each"
done
IFS=$old_ifs
if [ "$1" = --print ]; then
  printf '%s\n' "$path"
  exit 0
fi
export LD_LIBRARY_PATH="$path"
exec "$@"
