"""cuda_library: C++ with device code, compiled by nvcc.

Only in --config=cuda; in every other build its targets, and what depends on
them, are incompatible and left out of //... (a dependant that must build
anyway selects on //deploy/bazel/cuda:enabled).
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "NVCC")
load(":cuda_only.bzl", _CUDA_ONLY = "CUDA_ONLY")

CUDA_ONLY = _CUDA_ONLY

# Machine code for A100 and H100/H200, PTX for what comes after.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
]

# With --define=comera_cuda_one=1: one architecture, which halves nvcc's time.
_ARCHITECTURES_TO_CHECK = ["-gencode=arch=compute_90,code=sm_90"]

def _architectures(ctx):
    """nvcc's flags; --define=comera_cuda_sm=86,120 asks for these alone."""
    asked = ctx.var.get("comera_cuda_sm")
    if asked:
        return ["-gencode=arch=compute_%s,code=sm_%s" % (sm, sm) for sm in asked.split(",")]
    return _ARCHITECTURES_TO_CHECK if ctx.var.get("comera_cuda_one") else _ARCHITECTURES

_WARNINGS = [
    "-Werror=all-warnings",
    "-Xcompiler=-Wall,-Wextra,-Werror,-Wno-unused-parameter",
]

def _mode_flags(ctx):
    if ctx.var["COMPILATION_MODE"] == "dbg":
        return ["-O0", "-g"]
    return ["-O3", "-DNDEBUG"] if ctx.var["COMPILATION_MODE"] == "opt" else ["-O1"]

def _include_flags(context):
    """The dependencies' include paths and defines, in nvcc's words."""
    flags = []
    for folder in context.quote_includes.to_list():
        flags.append("-Xcompiler=-iquote," + folder)
    for folder in context.includes.to_list():
        flags.append("-I" + folder)
    for folder in context.system_includes.to_list():
        flags.append("-isystem=" + folder)
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)
    return flags

def _cuda_objects_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    host_compiler = cc_common.get_tool_for_action(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    inputs = depset(
        ctx.files.srcs + ctx.files.hdrs + [ctx.file._toolkit],
        transitive = [context.headers, toolchain.all_files],
    )
    objects = []
    reports = []
    code = []
    for source in ctx.files.srcs:
        stem = source.basename[:-len(".cu.cc")]
        folder = "_cuda/" + ctx.label.name + "/" + stem
        object = ctx.actions.declare_file(folder + ".pic.o")
        report = ctx.actions.declare_file(folder + ".ptxas.txt")
        cubins = ctx.actions.declare_directory(folder + ".cubins")
        arguments = ctx.actions.args()
        arguments.add_all(["-x", "cu", "-std=c++17", "-ccbin", host_compiler])
        arguments.add_all(_architectures(ctx))
        arguments.add_all(_WARNINGS)
        arguments.add_all(_mode_flags(ctx))
        arguments.add_all([
            # constexpr functions of the standard library in device code.
            "--expt-relaxed-constexpr",
            # Source lines for profilers and compute-sanitizer; no cost.
            "-lineinfo",
            # A fifth of the size, unpacked when a kernel is first loaded.
            "--compress-mode=size",
            "-Xptxas=-v",
            "-Xcompiler=-fPIC,-fno-omit-frame-pointer",
            "-Xcompiler=-iquote,.",
        ])
        arguments.add_all(_include_flags(context))
        arguments.add_all(ctx.attr.copts)
        arguments.add_all(["-c", source, "-o", object])

        # ptxas tells registers and spills on the error output, which is the
        # report; where nvcc fails it is the user's to read. Of the intermediate
        # files only the machine code, one file per architecture, is kept.
        ctx.actions.run_shell(
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            command = """
                set -e
                rm -rf "$CUBINS.keep"  # left by an interrupted build
                mkdir "$CUBINS.keep"
                "$NVCC" "$@" --keep --keep-dir="$CUBINS.keep" 2>"$REPORT" ||
                  { cat "$REPORT" >&2; exit 1; }
                mv "$CUBINS.keep"/*.cubin "$CUBINS"
                rm -r "$CUBINS.keep"
            """,
            arguments = [arguments],
            env = {
                "NVCC": NVCC,
                "REPORT": report.path,
                "CUBINS": cubins.path,
                "PATH": "/usr/local/bin:/usr/bin:/bin",
            },
            inputs = inputs,
            outputs = [object, report, cubins],
        )
        objects.append(object)
        reports.append(report)
        code.append(cubins)
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(
            ptxas_reports = depset(reports),
            cubins = depset(code),
        ),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu.cc"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "_toolkit": attr.label(default = "@local_cuda//:toolkit.txt", allow_single_file = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, srcs, hdrs = [], deps = [], cuda_copts = [], tags = [], visibility = None, testonly = False, **kwargs):
    """A cc_library some of whose sources are compiled by nvcc.

    Beside it stands NAME_ptxas: what ptxas tells about every kernel (registers,
    shared memory, spills), one file per *.cu.cc, which tests/gpu/resources.py
    reads, and NAME_cubins: their machine code, a folder per *.cu.cc, which
    tests/gpu/machine_code.py reads.

    Args:
      name: the library's name.
      srcs: *.cu.cc go to nvcc; other sources and headers to the C++ compiler.
      hdrs: as of cc_library.
      deps: as of cc_library; @local_cuda//:cudart comes by itself.
      cuda_copts: further options of nvcc.
      tags: as usual.
      visibility: as usual.
      testonly: as usual.
      **kwargs: for cc_library.
    """
    device = [src for src in srcs if src.endswith(".cu.cc")]
    host = [src for src in srcs if not src.endswith(".cu.cc")]
    all_deps = deps + ["@local_cuda//:cudart"]
    objects = [name + "_objects"] if device else []
    if device:
        _cuda_objects(
            name = name + "_objects",
            srcs = device,
            hdrs = hdrs + [src for src in host if src.endswith(".h")],
            copts = cuda_copts,
            tags = tags,
            target_compatible_with = CUDA_ONLY,
            testonly = testonly,
            deps = all_deps,
        )
    for group, outputs in [("_ptxas", "ptxas_reports"), ("_cubins", "cubins")]:
        native.filegroup(
            name = name + group,
            srcs = objects,
            output_group = outputs,
            tags = tags,
            testonly = testonly,
            visibility = ["//:__subpackages__"],
        )
    native.cc_library(
        name = name,
        srcs = host + objects,
        hdrs = hdrs,
        tags = tags,
        target_compatible_with = CUDA_ONLY,
        testonly = testonly,
        visibility = visibility,
        deps = all_deps,
        **kwargs
    )
