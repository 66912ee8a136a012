#!/bin/bash
# Checks which GPUs comera-worker offers, by its flags and what it finds.
set -u

worker="$1"
library="$2"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cp "$library" "$folder/libnvidia-ml.so.1"
unset CUDA_VISIBLE_DEVICES
failed=0

# expect WHAT COMMAND...: its output has the line WHAT, or the words.
expect() {
  local what="$1"
  shift
  local output
  output="$("$@" 2>&1)"
  if ! grep -qF -- "$what" <<<"$output"; then
    echo "FAILED: no \"$what\" from: $*"
    echo "$output"
    failed=1
  fi
}

offers() {
  env LD_LIBRARY_PATH="$folder" FAKE_NVML_GPUS=3 "$@" "$worker" \
    --print-config $flags
}

flags="--gpus=2"
expect "gpus=2" offers
expect "slots=2" offers
flags="--gpus=3 --slots=1"
expect "slots=4" offers
flags="--gpus=none"
expect "gpus=0" offers
flags="--gpus=1"
expect "gpus=1" offers CUDA_VISIBLE_DEVICES=GPU-2
flags="--gpus=2"
expect "2 are wanted, 1 are there" offers CUDA_VISIBLE_DEVICES=1
expect "2 are wanted, 0 are there" offers CUDA_VISIBLE_DEVICES=
flags="--gpus=7"
expect "7 are wanted, 3 are there" offers
flags="--gpus=some"
expect "not auto, none or a number" offers

# Without a driver: asked for, GPUs are missed; else nothing is said.
: >"$folder/libnvidia-ml.so.1"
flags="--gpus=1"
expect "cannot load libnvidia-ml.so.1" offers
flags=""
expect "gpus=0" offers
exit "$failed"
