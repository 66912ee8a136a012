#!/usr/bin/env bash
# Builds container images, without a daemon and without a registry, from the
# Debian packages that deploy/debian/build.sh made.
#
#   build.sh --debs=FOLDER [--out=FOLDER] [--base=IMAGE] [--cuda=FOLDER]
#            [--target=server]... [--tag=latest]
#
#   --out     where to write each image as an OCI archive, comera-TARGET.tar
#             (skopeo copy oci-archive:... docker://... pushes it)
#   --base    a Debian 12 image to install into, by its digest
#             (NAME@sha256:...), or one of this machine (localhost/NAME); default:
#             one is made by mmdebstrap from the mirror that apt uses here, whose
#             signatures are checked
#   --cuda    CUDA's libraries, for packages of --config=cuda programs; the
#             worker's image gets those that the programs load
#   --target  server, worker or client; default: all
#
# Images are localhost/comera-TARGET:TAG in buildah's storage; what they were
# made of stays there too, until `buildah rmi --prune`. BUILDAH_ISOLATION is
# chroot unless it is set, which works inside containers too; STORAGE_DRIVER=vfs
# helps where there is no overlayfs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fail() {
  echo "build.sh: $*" >&2
  exit 1
}

debs="" out="" base="" cuda="" tag=latest targets=()
for argument; do
  value=${argument#*=}
  case "$argument" in
    --debs=?*) debs=$value ;;
    --out=?*) out=$value ;;
    --base=?*) base=$value ;;
    --cuda=?*) cuda=$value ;;
    --target=?*) targets+=("$value") ;;
    --tag=?*) tag=$value ;;
    *)
      sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
      [ "$argument" = --help ] && exit 0
      exit 2
      ;;
  esac
done
[ -n "$debs" ] || fail "--debs=FOLDER is needed"
if [ -n "$base" ] && [[ $base != localhost/* ]] &&
  ! [[ $base =~ @sha256:[0-9a-f]{64}$ ]]; then
  fail "--base=$base: name it by its digest, NAME@sha256:...; a tag is another" \
    "image tomorrow"
fi
[ ${#targets[@]} -gt 0 ] || targets=(server worker client)
command -v buildah >/dev/null || fail "buildah is not installed"
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/cuda"
for package in server worker client; do
  found=("$debs"/comera-"$package"_*.deb)
  if [ ${#found[@]} -ne 1 ] || [ ! -e "${found[0]}" ]; then
    fail "$debs must hold one comera-$package package"
  fi
  cp "${found[0]}" "$work/debs/"
done
cp -L "$here/Containerfile" "$here/collect.sh" "$work/"
if [ -n "$cuda" ]; then
  for name in cublas cublasLt nccl; do
    # Programs ask for this name, libcublas.so.13.
    for library in "$cuda/lib$name".so.*; do
      [[ ! $library =~ \.so\.[0-9]+$ ]] || cp -L "$library" "$work/cuda/"
    done
  done
fi

if [ -z "$base" ]; then
  command -v mmdebstrap >/dev/null || fail "mmdebstrap is not installed; --base"
  base=localhost/comera-base:$tag
  mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar" >&2
  made=$(buildah from scratch)
  buildah add --quiet "$made" "$work/base.tar" / >/dev/null
  buildah config --cmd /bin/sh "$made"
  buildah commit --quiet --rm "$made" "$base" >/dev/null
  rm "$work/base.tar"
fi
for target in "${targets[@]}"; do
  image=localhost/comera-$target:$tag
  buildah build --quiet --layers --build-arg "BASE=$base" --target "$target" \
    --tag "$image" --file "$work/Containerfile" "$work" >/dev/null
  if [ -n "$out" ]; then
    mkdir -p "$out"
    rm -f "$out/comera-$target.tar"
    buildah push --quiet "$image" "oci-archive:$out/comera-$target.tar:$image"
  fi
  echo "$image"
done
