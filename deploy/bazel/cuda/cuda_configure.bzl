"""Finds the CUDA toolkit and NCCL and makes the repository @local_cuda of them.

Without a toolkit @local_cuda is an empty shell: everything loads, the CPU build
never looks inside, and --config=cuda ends with one message.
"""

# Toolkits before 13 are not tried by anyone here.
_OLDEST = 13

_SYSTEM_PREFIXES = ["/usr/local", "/usr"]

_LIBRARY_FOLDERS = [
    "lib64",
    "lib",
    "lib/x86_64-linux-gnu",
    "targets/x86_64-linux/lib",
]

def _folder_with(ctx, prefixes, folders, name):
    """The first PREFIX/FOLDER that holds `name`, as a string; "" if none."""
    for prefix in prefixes:
        for folder in folders:
            if ctx.path("%s/%s/%s" % (prefix, folder, name)).exists:
                return "%s/%s" % (prefix, folder)
    return ""

def _version(text):
    """("13.0", 13) out of what `nvcc --version` prints."""
    for word in text.split("release ")[1:]:
        version = word.split(",")[0].strip()
        return version, int(version.split(".")[0])
    return "", 0

def _find_toolkit(ctx):
    """A struct of the toolkit, or (None, why there is none)."""
    home = ctx.os.environ.get("CUDA_HOME", "")
    prefixes = [home] if home else ["/usr/local/cuda", "/usr/lib/cuda", "/opt/cuda"]
    tried = []
    for prefix in prefixes:
        nvcc = ctx.path(prefix + "/bin/nvcc")
        if not nvcc.exists:
            tried.append("%s has no bin/nvcc" % prefix)
            continue
        result = ctx.execute([nvcc, "--version"])
        version, major = _version(result.stdout) if result.return_code == 0 else ("", 0)
        if major < _OLDEST:
            tried.append("%s is of version %s" % (prefix, version or "unknown"))
            continue
        headers = _folder_with(ctx, [prefix], ["include", "targets/x86_64-linux/include"], "cublasLt.h")
        libraries = _folder_with(ctx, [prefix], _LIBRARY_FOLDERS, "libcudart_static.a")
        if not headers or not libraries:
            tried.append("%s lacks headers or libraries (cublasLt.h, libcudart_static.a)" % prefix)
            continue
        return struct(
            nvcc = str(nvcc),
            prefix = prefix,
            headers = headers,
            libraries = libraries,
            version = version,
            banner = result.stdout,
        ), ""
    return None, "; ".join(tried)

def _find_nccl(ctx, toolkit):
    """(folder of nccl.h, folder of libnccl.so.2), or ("", "")."""
    home = ctx.os.environ.get("NCCL_HOME", "")
    prefixes = [home] if home else [toolkit.prefix] + _SYSTEM_PREFIXES
    headers = _folder_with(ctx, prefixes, ["include"], "nccl.h")
    libraries = _folder_with(ctx, prefixes, _LIBRARY_FOLDERS, "libnccl.so")
    return (headers, libraries) if headers and libraries else ("", "")

_DEFS = '''"""What the repository rule found; see //deploy/bazel/cuda."""
HAVE_CUDA = {have}
CUDA_VERSION = "{version}"
NVCC = "{nvcc}"
'''

_SHELL = '''load("@comera//deploy/bazel/cuda:cuda_missing.bzl", "cuda_missing")
package(default_visibility = ["//visibility:public"])
[cuda_missing(name = name, what = "{what}") for name in ["headers", "cudart", "cublas", "cublasLt", "nccl"]]
exports_files(["toolkit.txt"])
'''

_TOOLKIT = '''package(default_visibility = ["//visibility:public"])
exports_files(["toolkit.txt"])

# CUDA's headers count as system headers, so that their warnings are ignored.
cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/nv/**",
    ]),
    includes = ["include"],
)

# Static: the driver is all that the runtime needs on another machine.
cc_library(
    name = "cudart",
    linkopts = ["-L{libraries}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)

# The run path serves programs run where they were built. RUNPATH, so that
# LD_LIBRARY_PATH comes first everywhere else.
cc_library(
    name = "cublasLt",
    linkopts = ["-L{libraries}", "-lcublasLt", "-Wl,--enable-new-dtags,-rpath,{libraries}"],
    deps = [":cudart"],
)

cc_library(
    name = "cublas",
    linkopts = ["-L{libraries}", "-lcublas", "-Wl,-rpath-link,{libraries}"],
    deps = [":cublasLt"],
)
'''

_NCCL = '''
cc_library(
    name = "nccl",
    hdrs = ["nccl/nccl.h"],
    includes = ["nccl"],
    linkopts = ["-L{libraries}", "-lnccl", "-Wl,--enable-new-dtags,-rpath,{libraries}"],
    deps = [":cudart"],
)
'''

_NO_NCCL = '''
load("@comera//deploy/bazel/cuda:cuda_missing.bzl", "cuda_missing")
cuda_missing(name = "nccl", what = "NCCL not found: install libnccl-dev of NCCL 2.28, or set NCCL_HOME to the folder that holds include/nccl.h")
'''

def _cuda_configure_impl(ctx):
    toolkit, why = _find_toolkit(ctx)
    if not toolkit:
        ctx.file("defs.bzl", _DEFS.format(
            have = False,
            version = "",
            nvcc = "",
        ))
        ctx.file("toolkit.txt", "")
        ctx.file("BUILD", _SHELL.format(what = (
            "CUDA toolkit not found (%s). Install CUDA %d or newer, or set CUDA_HOME to its folder; without --config=cuda the build is for CPUs only." % (why, _OLDEST)
        )))
        return
    ctx.file("defs.bzl", _DEFS.format(
        have = True,
        version = toolkit.version,
        nvcc = toolkit.nvcc,
    ))

    # An input of every nvcc action, so that another toolkit is another build.
    ctx.file("toolkit.txt", toolkit.banner)
    ctx.symlink(toolkit.headers, "include")
    build = _TOOLKIT.format(libraries = toolkit.libraries)
    nccl_headers, nccl_libraries = _find_nccl(ctx, toolkit)
    if nccl_headers:
        ctx.symlink(nccl_headers + "/nccl.h", "nccl/nccl.h")
        build += _NCCL.format(libraries = nccl_libraries)
    else:
        build += _NO_NCCL
    ctx.file("BUILD", build)

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME", "NCCL_HOME"],
    # Looked for again whenever a Bazel server starts: a toolkit may have come.
    local = True,
    configure = True,
    doc = "Defines headers, cudart, cublas, cublasLt, nccl and defs.bzl of the toolkit found.",
)
