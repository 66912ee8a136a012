#!/usr/bin/env bash
# Packs the trainer, the GPU tests and the benchmarks of the CUDA build into one
# archive for a machine with a GPU: x86-64 Linux with a newer C library than this
# machine's, and with cuBLAS 13 and NCCL (in the usual places, or as packages of
# Python). Needs the CUDA toolkit, not a GPU.
#
#   deploy/gpu_bundle.sh [--out=comera-gpu.tar.xz]
#
# There: tar xf comera-gpu.tar.xz; cd comera-gpu; then
#   tests/gpu/run.sh [--shared=DIR]
#   tests/gpu/bench.sh [--out=DIR]
#   deploy/with_cuda.sh bin/worker/trainer/comera-trainer --task=FILE
set -euo pipefail

out=comera-gpu.tar.xz
case "${1:-}" in
  "") ;;
  --out=?*) out=${1#*=} ;;
  *)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac
out=$(realpath "$out")
cd "$(dirname "$0")/.."
limit_bytes=$((50 << 20))

mapfile -t labels < <(
  sed -nE 's%^(//[^ ]+).*%\1%p' tests/gpu/gpu_tests.txt
  echo //worker/trainer:comera-trainer
  sed -nE 's%^(//[^ ]+)$%\1%p' tests/gpu/bench_programs.txt
)
bazel build --config=cuda "${labels[@]}" >&2
mapfile -t programs < <(printf '%s\n' "${labels[@]}" | sed 's%^//%%; s%:%/%')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/comera-gpu
deploy/pack_programs.sh --from=bazel-bin --to="$bundle" "${programs[@]}"
mkdir -p "$bundle/tests/gpu" "$bundle/docs"
cp LICENSE "$bundle/"
cp tests/gpu/{run.sh,run_programs.sh,gpu_tests.txt} \
  tests/gpu/{bench.sh,bench.py,bench_report.py,pytorch_dense.py} \
  "$bundle/tests/gpu/"
cp -r docs/examples "$bundle/docs/"
git describe --always --dirty >"$bundle/revision.txt" 2>/dev/null || true
# Every program holds the same kernels; the window must see the last one's.
tar -C "$work" --owner=0 --group=0 --sort=name -c comera-gpu |
  xz -T1 --lzma2=preset=6,dict=64MiB >"$out"

bytes=$(stat -c %s "$out")
echo "$out: $((bytes >> 10)) KiB, $((${#programs[@]})) programs" >&2
if [ "$bytes" -gt "$limit_bytes" ]; then
  echo "gpu_bundle.sh: above $((limit_bytes >> 20)) MiB; the largest:" >&2
  find "$bundle" -type f -printf '%s %P\n' | sort -rn | head -n 10 >&2
  exit 1
fi
