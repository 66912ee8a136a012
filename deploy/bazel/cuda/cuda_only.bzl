"""The target_compatible_with of targets that exist in the CUDA build only."""

CUDA_ONLY = select({
    "@comera//deploy/bazel/cuda:enabled": [],
    "//conditions:default": ["@comera//deploy/bazel/cuda:cpu_only"],
})
