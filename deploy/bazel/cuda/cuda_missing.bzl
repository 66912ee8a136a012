"""A library that cannot be had: the CUDA build ends with the reason."""

load(":cuda_only.bzl", "CUDA_ONLY")

def _cuda_missing_impl(ctx):
    fail(ctx.attr.what)

_cuda_missing = rule(
    implementation = _cuda_missing_impl,
    attrs = {"what": attr.string(mandatory = True)},
    provides = [CcInfo],
)

def cuda_missing(name, what):
    """Stands for library `name`; `what` is missing.

    Args:
      name: the library's name.
      what: the message.
    """
    _cuda_missing(
        name = name,
        target_compatible_with = CUDA_ONLY,
        what = what,
    )
