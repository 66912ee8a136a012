"""gpu_test: a GoogleTest program that needs a GPU."""

load("//deploy/bazel/cuda:cuda_library.bzl", "CUDA_ONLY")

def gpu_test(name, tags = [], **kwargs):
    """A cc_test of the CUDA build.

    `manual`: the patterns of an ordinary test run leave it out. Asked for by
    name it runs, and fails where there is no GPU.

    Args:
      name: ends with _test.
      tags: further ones.
      **kwargs: of cc_test.
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

def cuda_backend_test(name, deps, **kwargs):
    """A gpu_test of the CUDA backend, and the same on the processor.

    X_test runs on a GPU; X_on_host_test is an ordinary test of the same source
    on the CUDA of //tests/fakes/cuda, with COMERA_FAKE_CUDA defined: threads of
    a block are slow there, so it does less.

    Args:
      name: ends with _test.
      deps: but for the backend.
      **kwargs: of cc_test.
    """
    gpu_test(
        name = name,
        deps = deps + ["//kernels/cuda:cuda_backend"],
        **kwargs
    )
    native.cc_test(
        name = name[:-len("_test")] + "_on_host_test",
        local_defines = ["COMERA_FAKE_CUDA"],
        tags = ["notsan"],  # one thread, and fibers are slow there
        deps = deps + ["//tests/fakes/cuda:cuda_backend"],
        **kwargs
    )
