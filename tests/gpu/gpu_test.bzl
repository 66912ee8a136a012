"""gpu_test: a GoogleTest program that needs a GPU."""

load("//deploy/bazel/cuda:cuda_library.bzl", "CUDA_ONLY")

def gpu_test(name, tags = [], **kwargs):
    """A cc_test of the CUDA build.

    `manual`: the patterns of an ordinary test run leave it out. Asked for by
    name it runs, and fails where there is no GPU.
    """
    native.cc_test(
        name = name,
        tags = tags + [
            "gpu",
            "manual",
        ],
        target_compatible_with = CUDA_ONLY,
        **kwargs
    )
