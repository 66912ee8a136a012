#!/usr/bin/env bash
# Writes the Python modules of the API from proto/ into comera/_proto, where
# they are committed: users of the package need no protoc.
#
#   client/python/generate_stubs.sh [FOLDER]
#
#   FOLDER   where to write instead, e.g. to compare
#
# Needs Debian's protobuf-compiler and protobuf-compiler-grpc. Run it after
# every change of a proto; a test compares.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
protos=${COMERA_PROTO_DIR:-$here/../../proto}
out=${1:-$here/comera/_proto}
services=(access_service dataset_service model_service predict_service
  queue_service sweep_service training_service)
messages=(job progress)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The messages of google.rpc under a name of our own: a program that also has
# Google's package registers them under theirs, and twice is an error.
mkdir -p "$work/in/comera/v1" "$work/in/comera/rpc" "$work/out" "$out"
sed 's/^package google\.rpc;$/package comera.rpc;/' \
  "$protos/comera/rpc/error_details.proto" >"$work/in/comera/rpc/error_details.proto"
files=(comera/rpc/error_details.proto)
for name in "${messages[@]}" "${services[@]}"; do
  cp "$protos/comera/v1/$name.proto" "$work/in/comera/v1/"
  files+=("comera/v1/$name.proto")
done

cd "$work/in"
protoc -I. -I/usr/include --python_out="$work/out" --pyi_out="$work/out" \
  "${files[@]}"
services=("${services[@]/%/.proto}")
protoc -I. -I/usr/include --grpc_python_out="$work/out" \
  --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" \
  "${services[@]/#/comera/v1/}"

# One flat package, whose modules import each other relative to it.
for file in "$work"/out/comera/*/*_pb2*.py*; do
  sed -E 's/^from comera\.(v1|rpc) import /from . import /' "$file" \
    >"$out/$(basename "$file")"
done
