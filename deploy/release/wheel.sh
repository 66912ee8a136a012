#!/usr/bin/env bash
# Builds the wheel of the Python package, with the modules of the API made from
# proto/, and installs it into a fresh environment to see that it works. Needs
# Debian's python3-pip, python3-setuptools, python3-wheel, python3-venv and
# protobuf-compiler-grpc; no network.
#
#   wheel.sh --out=FOLDER
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() {
  echo "wheel.sh: $*" >&2
  [ ! -s "${work:-}/log" ] || tail -n 20 "$work/log" >&2
  exit 1
}

out=""
for argument; do
  case "$argument" in
    --out=?*) out=${argument#*=} ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
[ -n "$out" ] || fail "--out=FOLDER is needed"
python=/usr/bin/python3
for module in pip setuptools wheel venv; do
  "$python" -c "import $module" 2>/dev/null ||
    fail "python3-$module is not installed"
done
version=$("$root/deploy/version.sh")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/wheel"
for name in comera README.md pyproject.toml; do
  cp -rL "$root/client/python/$name" "$work/source/"
done
rm -rf "$work/source/comera/_proto"
find "$work/source" -name __pycache__ -prune -exec rm -rf {} +
chmod -R u+w "$work/source"
"$root/client/python/generate_stubs.sh" "$work/source/comera/_proto" \
  >"$work/log" 2>&1 || fail "the API's modules cannot be made"
"$python" -m pip --no-cache-dir wheel --no-deps --no-index \
  --no-build-isolation --wheel-dir "$work/wheel" "$work/source" \
  >"$work/log" 2>&1 || fail "pip makes no wheel"
wheel=$work/wheel/comera-$version-py3-none-any.whl
[ -e "$wheel" ] || fail "pip made $(ls "$work/wheel") in place of ${wheel##*/}"

# Debian's grpcio and protobuf are its dependencies here.
"$python" -m venv --without-pip --system-site-packages "$work/venv"
"$python" -m pip --no-cache-dir --python "$work/venv/bin/python" install \
  --no-index --no-deps "$wheel" >"$work/log" 2>&1 || fail "it does not install"
found=$(cd "$work" && env -u PYTHONPATH "$work/venv/bin/python" -c '
import comera, comera._proto.job_pb2, importlib.metadata, sys
assert comera.__file__.startswith(sys.prefix), comera.__file__
assert importlib.metadata.version("comera") == comera.__version__
comera.Client(server="127.0.0.1:1", token="none")
print(comera.__version__)' 2>"$work/log") || fail "what is installed does not work"
[ "$found" = "$version" ] || fail "it is of version $found, not $version"
mkdir -p "$out"
cp "$wheel" "$out/"
