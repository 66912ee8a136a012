#!/usr/bin/env bash
# Writes the Python modules of the API from proto/ into comera/_proto. The build
# runs it (//client/python:stubs); who uses the package from a checkout, or makes
# a wheel there, runs it once, and again when a proto has changed.
#
#   client/python/generate_stubs.sh [FOLDER]
#
#   FOLDER   where to write in place of comera/_proto
#
# Needs Debian's protobuf-compiler and protobuf-compiler-grpc.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
protos=${COMERA_PROTO_DIR:-$here/../../proto}
out=${1:-$here/comera/_proto}
services=(access_service dataset_service model_service predict_service
  queue_service sweep_service training_service)
messages=(job progress)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The messages of google.rpc get a name of our own: a program that also has
# Google's package registers them under theirs, and twice is an error.
mkdir -p "$work/in/comera/v1" "$work/in/comera/rpc" "$work/out" "$out"
sed 's/^package google\.rpc;$/package comera.rpc;/' \
  "$protos/comera/rpc/error_details.proto" >"$work/in/comera/rpc/error_details.proto"
files=(comera/rpc/error_details.proto)
for name in "${messages[@]}" "${services[@]}"; do
  cp "$protos/comera/v1/$name.proto" "$work/in/comera/v1/"
  files+=("comera/v1/$name.proto")
done
out=$(cd "$out" && pwd)

cd "$work/in"
protoc -I. -I/usr/include --python_out="$work/out" --pyi_out="$work/out" \
  "${files[@]}"
services=("${services[@]/%/.proto}")
protoc -I. -I/usr/include --grpc_python_out="$work/out" \
  --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" \
  "${services[@]/#/comera/v1/}"

# The modules form one flat package and import each other relative to it.
rm -f "$out"/*_pb2*.py*
echo '"""The messages and stubs of the API, written by generate_stubs.sh."""' \
  >"$out/__init__.py"
for file in "$work"/out/comera/*/*_pb2*.py*; do
  sed -E 's/^from comera\.(v1|rpc) import /from . import /' "$file" \
    >"$out/$(basename "$file")"
done
