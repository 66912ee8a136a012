#!/usr/bin/env bash
# Installs what building and running comera needs from Debian 12's packages;
# does nothing where all of it is there. Packages with a version in their name
# (libstdc++-12-dev) come with those that have none, so that the names are right
# on other releases too; docs/building.md has what is known of Ubuntu 24.04.
#
#   deploy/install_deps.sh [--tests | --fuzz]
#
#   --tests   also what tests/run.sh needs: programs that tests start, Chromium,
#             PyTorch and the like
#   --fuzz    also what the fuzz targets need: Clang with its sanitizers
set -euo pipefail

packages=(
  # Build: Bazel 4.2.3 with the rule repositories WORKSPACE points at.
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto
  default-jdk-headless g++
  # RPC and schema.
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  # Base, logs, command line, job files.
  libabsl-dev libspdlog-dev libcli11-dev libyaml-cpp-dev
  nlohmann-json3-dev
  # CPU matrix products, collectives, decompositions.
  libdnnl-dev libgloo-dev libeigen3-dev
  # HTTP: Beast and Asio serve it, workers fetch data with libcurl; what S3
  # answers is XML. Metrics.
  libboost-dev libcurl4-openssl-dev libexpat1-dev prometheus-cpp-dev
  # The screen of `comera top`.
  libncurses-dev
  # Store, checksums, text, compression.
  libsqlite3-dev libpqxx-dev libssl-dev libicu-dev zlib1g-dev
  libzstd-dev
  # Tests and benchmarks are part of the build.
  libgtest-dev libgmock-dev libbenchmark-dev libboost-context-dev
  # The quickstart trains on C/C++ headers and Python's standard library.
  libc6-dev linux-libc-dev python3
  # deploy/gpu_bundle.sh.
  xz-utils
)
# The dashboard is built with npm, of whatever Node there is.
command -v npm >/dev/null || packages+=(nodejs npm)

test_packages=(
  # Certificates; networks and clocks that the end-to-end tests break.
  openssl iproute2 nftables libfaketime
  # A PostgreSQL and a Prometheus that tests start by themselves.
  postgresql prometheus
  # docs/reference is generated from the protos; docs/http.md calls the API.
  python3-protobuf curl
  # client/python and its tests: the client, types, data frames, plots, a wheel,
  # exported models in PyTorch.
  python3-grpcio mypy python3-pandas python3-matplotlib python3-torch
  python3-pip python3-setuptools python3-wheel python3-venv
  # The dashboard's tests.
  chromium
  # tests/gpu: the machine code of kernels.
  python3-pyelftools
  # Checks exported ONNX graphs.
  python3-onnx python3-sentencepiece
  # Manual pages, and what a terminal would show.
  groff-base mandoc python3-pyte
  # tests/deploy: scripts, packages, units, Kubernetes files, and a Slurm that
  # its test starts by itself.
  shellcheck debhelper lintian systemd python3-jsonschema python3-yaml
  slurmctld slurmd slurm-client munge
  # deploy/release.sh; the template engine of Helm charts.
  apt-utils gnupg patchelf golang-go
)
# kubectl, for its kustomize; other packages than Debian's have it too.
command -v kubectl >/dev/null || test_packages+=(kubernetes-client)

case "${1:-}" in
  "") ;;
  --tests) packages+=("${test_packages[@]}") ;;
  --fuzz) packages+=(clang llvm libclang-rt-dev) ;;
  *)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install_deps.sh: no apt-get here; install the equivalents of:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: run as root, or install sudo; missing packages:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}" >&2
# None of these packages is to start its daemon here, now or at the next boot.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi
"${as_root[@]}" apt-get update -q >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
for daemon in postgresql prometheus munge slurmctld slurmd; do
  case " ${missing[*]} " in
    *" $daemon "*) "${as_root[@]}" systemctl --quiet disable "$daemon" >&2 ||
      true ;;
  esac
done
