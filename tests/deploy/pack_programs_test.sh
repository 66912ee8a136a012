#!/usr/bin/env bash
# A packed trainer runs with nothing but the bundle, the C library and CUDA's
# libraries. Argument: the build, cpu or cuda.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/comera-gpu
fail() {
  echo "$*" >&2
  exit 1
}

if deploy/pack_programs.sh --to="$work/none" 2>/dev/null; then
  fail "packs without programs"
fi
deploy/pack_programs.sh --to="$bundle" worker/trainer/comera-trainer ||
  fail "does not pack"
program=$bundle/bin/worker/trainer/comera-trainer

# The CPU build needs none of CUDA's libraries, with_cuda.sh asks for them.
cuda_home=${CUDA_HOME:-}
if [ "$1" = cpu ]; then
  cuda_home=$work/cuda
  mkdir -p "$cuda_home/lib64"
  touch "$cuda_home"/lib64/{libcublas.so.13,libcublasLt.so.13,libnccl.so.2}
fi
clean() {
  env -i PATH=/usr/bin:/bin CUDA_HOME="$cuda_home" \
    "$bundle/deploy/with_cuda.sh" "$@"
}

grep -q -- --task <<<"$(clean "$program" --help)" || fail "--help does not run"
libraries=$(clean ldd "$program")
if grep "not found" <<<"$libraries"; then fail "unresolved libraries"; fi
# Everything else comes out of the bundle.
strangers=$(sed -nE 's/^\t([^ ]+) => ([^ ]+) .*/\1 \2/p' <<<"$libraries" |
  grep -vE '^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libgomp)\.so' |
  grep -vE '^lib(cublas|cublasLt|nccl)\.so' | grep -v " $bundle/deploy/lib/")
[ -z "$strangers" ] || fail "not in the bundle: $strangers"
grep -q libgloo <<<"$libraries" || fail "ldd says nothing of Gloo"

find "$bundle" -name 'libcu*' -o -name 'libnccl*' -o -name 'libc.so*' |
  grep . && fail "libraries that must not be in it"
[ -f "$bundle/deploy/lib/if_missing/libgomp.so.1/libgomp.so.1" ] ||
  fail "libgomp is not kept for machines without it"
if grep -q '\.symtab' <<<"$(readelf -S "$program")"; then fail "not stripped"; fi

# The tests and benchmarks add little to what the trainer needs.
bytes=$(tar -C "$work" -cz comera-gpu | wc -c)
[ "$bytes" -lt $((40 << 20)) ] || fail "$bytes bytes packed"
echo "all as wanted"
