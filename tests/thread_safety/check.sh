#!/usr/bin/env bash
# Clang's thread safety analysis (-Wthread-safety) over every source that locks
# a mutex, or includes a header in which one guards fields: minutes, since
# nothing is compiled, only parsed. Arguments: the sources to check instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang++ >/dev/null || {
  echo "no clang++: deploy/install_deps.sh --fuzz installs it" >&2
  exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The code that protoc makes, as in the build: imports of the API are relative
# to proto/, others to the root.
mapfile -t api < <(find proto -name '*.proto')
mapfile -t own < <(find server worker -name '*.proto')
mkdir "$work/gen"
protoc -Iproto --cpp_out="$work/gen" --grpc_out="$work/gen" \
  --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" "${api[@]}"
protoc -Iproto -I. --cpp_out="$work/gen" "${own[@]}"

# Headers of embedded files, which deploy/bazel/embed.bzl makes.
find server -name BUILD -exec awk '
  FNR == 1 { folder = FILENAME; sub("/BUILD$", "", folder) }
  /^embed_file\(/ { inside = 1 }
  inside && $1 == "name" { split($0, part, "\""); name = part[2] }
  inside && $1 == "symbol" { split($0, part, "\""); print folder, name, part[2] }
  /^\)/ { inside = 0 }' {} + | while read -r folder name symbol; do
  mkdir -p "$work/gen/$folder"
  printf '#pragma once\n#include <string_view>\nnamespace comera::server {\n' \
    >"$work/gen/$folder/$name.h"
  printf 'std::string_view %s();\n}\n' "$symbol" >>"$work/gen/$folder/$name.h"
done

# CUDA's headers are not everywhere.
rooms=(common proto kernels server worker client)
locks='std::(mutex|shared_mutex|lock_guard|unique_lock)|ABSL_GUARDED_BY'
if [ $# -gt 0 ]; then
  printf '%s\n' "$@"
else
  grep -rlE "$locks" --include='*.h' "${rooms[@]}" |
    sed 's|.*|#include "&"|' >"$work/headers"
  {
    grep -rlFf "$work/headers" --include='*.cc' "${rooms[@]}"
    grep -rlE "$locks" --include='*.cc' "${rooms[@]}"
  } | grep -vE '^kernels/cuda/|/nccl_' | sort -u
fi >"$work/sources"

check() {
  clang++ -std=c++17 -fsyntax-only -Wno-everything -Wthread-safety -Werror \
    -include tests/thread_safety/annotated_mutex.h -I"$work/gen" -I. \
    -Iworker/collective/gloo_headers "$1"
}
export -f check
export work

# A check that finds nothing in this finds nothing anywhere.
cat >"$work/wrong.cc" <<'TEXT'
#include <mutex>
struct Counter {
  int Read() { return count; }
  std::mutex mutex_;
  int count ABSL_GUARDED_BY(mutex_) = 0;
};
TEXT
if check "$work/wrong.cc" 2>"$work/wrong" ||
  ! grep -q "requires holding mutex" "$work/wrong"; then
  echo "the analysis does not work here: $(cat "$work/wrong")" >&2
  exit 1
fi

if ! xargs -a "$work/sources" -P "$(nproc)" -I{} bash -c 'check {}'; then
  echo "thread safety: see the errors above" >&2
  exit 1
fi
echo "thread safety: $(wc -l <"$work/sources") sources, no finding"
