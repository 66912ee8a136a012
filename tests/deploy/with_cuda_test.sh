#!/usr/bin/env bash
# deploy/with_cuda.sh finds CUDA libraries in every place it should, and says
# what is missing. All places are fake.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp deploy/with_cuda.sh "$work/"
problems=0
mkdir -p "$work/bin" "$work/empty"

# The linker's cache: what the file `cache` says.
cat >"$work/bin/ldconfig" <<EOT
#!/bin/sh
cat "$work/cache"
EOT
# Python: the folders of the file `python` are on its path.
cat >"$work/bin/python3" <<EOT
#!/bin/sh
for each in \$(cat "$work/python"); do ls -d "\$each"/nvidia/*/lib; done
EOT
chmod +x "$work"/bin/*

libraries() {  # libraries FOLDER NAME...: empty files of these names
  local folder=$1 name
  shift
  mkdir -p "$folder"
  for name; do : >"$folder/$name"; done
}
cublas=(libcublas.so.13 libcublasLt.so.13)

# run STATUS [VARIABLE=VALUE...]: prints the library path with $work as "."
run() {
  local want=$1 status=0
  shift
  output=$(env -i PATH="$work/bin:/usr/bin:/bin" WITH_CUDA_ROOT="$work/root" \
    "$@" "$work/with_cuda.sh" --print 2>&1) || status=$?
  output=${output//$work/.}
  if [ "$status" -ne "$want" ]; then
    echo "status $status instead of $want: $output"
    problems=$((problems + 1))
  fi
}
expect() {  # expect NAME TEXT
  if [ "$output" != "$2" ]; then
    printf '%s: wanted\n  %s\ngot\n  %s\n' "$1" "$2" "$output"
    problems=$((problems + 1))
  fi
}
reset() {
  rm -rf "${work:?}"/{root,lib,home,site,nccl}
  : >"$work/cache"
  : >"$work/python"
}

reset
run 1
case "$output" in
  *"not found: libcublas.so.13 libcublasLt.so.13 libnccl.so.2."*) ;;
  *) expect nothing "a message that names all three" ;;
esac

reset
libraries "$work/root/usr/local/cuda/lib64" "${cublas[@]}"
run 1
case "$output" in
  *"not found: libnccl.so.2."*) ;;
  *) expect "no NCCL" "a message that names it" ;;
esac

reset
libraries "$work/root/usr/local/cuda/lib64" "${cublas[@]}" libnccl.so.2
run 0
expect "toolkit" "./root/usr/local/cuda/lib64"

reset  # another version's toolkit is passed over
libraries "$work/root/usr/local/cuda/lib64" libcublas.so.12
libraries "$work/root/usr/local/cuda-13.1/lib64" "${cublas[@]}" libnccl.so.2
run 0
expect "versioned toolkit" "./root/usr/local/cuda-13.1/lib64"

reset
libraries "$work/root/usr/local/cuda/lib64" "${cublas[@]}" libnccl.so.2
libraries "$work/home/lib" "${cublas[@]}" libnccl.so.2
run 0 CUDA_HOME="$work/home"
expect "CUDA_HOME comes first" "./home/lib"

libraries "$work/nccl" libnccl.so.2
run 0 LD_LIBRARY_PATH="$work/empty:$work/nccl"
expect "LD_LIBRARY_PATH comes first, and stays" \
  "./root/usr/local/cuda/lib64:./nccl:./empty"

reset  # in the cache: needs no folder
libraries "$work/root/opt/cuda/lib64" "${cublas[@]}"
printf '\tlibnccl.so.2 (libc6,x86-64) => /lib/libnccl.so.2\n' >"$work/cache"
run 0
expect "linker's cache" "./root/opt/cuda/lib64"

reset
libraries "$work/site/nvidia/cu13/lib" "${cublas[@]}"
libraries "$work/site/nvidia/nccl/lib" libnccl.so.2
libraries "$work/site/nvidia/cudnn/lib" libcudnn.so.9
echo "$work/site" >"$work/python"
run 0
expect "Python's packages" "./site/nvidia/cu13/lib:./site/nvidia/nccl/lib"

# A bundle: its libraries first; libgomp only where the system has none.
mkdir -p "$work/lib/if_missing/libgomp.so.1" "$work/lib/if_missing/libstdc++.so.6"
printf '\tlibstdc++.so.6 (libc6,x86-64) => /lib/libstdc++.so.6\n' >"$work/cache"
run 0
expect "bundle" \
  "./lib:./lib/if_missing/libgomp.so.1:./site/nvidia/cu13/lib:./site/nvidia/nccl/lib"

# The same with the real python3.
reset
libraries "$work/site/nvidia/cu13/lib" "${cublas[@]}" libnccl.so.2
mv "$work/bin/python3" "$work/hidden"
run 0 PYTHONPATH="$work/site"
expect "real python3" "./site/nvidia/cu13/lib"
mv "$work/hidden" "$work/bin/python3"

# The program gets the path and its arguments; its status is the script's.
reset
libraries "$work/root/usr/local/cuda/lib64" "${cublas[@]}" libnccl.so.2
status=0
# shellcheck disable=SC2016
output=$(env -i PATH="$work/bin:/usr/bin:/bin" WITH_CUDA_ROOT="$work/root" \
  "$work/with_cuda.sh" sh -c 'echo "$LD_LIBRARY_PATH|$1"; exit 5' sh 'a b') ||
  status=$?
expect program "$work/root/usr/local/cuda/lib64|a b"
[ "$status" -eq 5 ] || expect status "5, not $status"

[ "$problems" -eq 0 ] && echo "all as wanted"
[ "$problems" -eq 0 ]
