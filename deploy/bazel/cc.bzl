"""cc_library, cc_binary and cc_test with a precompiled header.

Most of the time of a small source goes into headers that all of its neighbours
parse too. The header is compiled once (//deploy/bazel/pch) and its result read
by each compilation that begins with it. A source still names what it uses: a
build with --define=comera_pch=0 has none of this.
"""

# The header of each package, by the longest prefix; "" for none.
_HEADERS = {
    "client": "rpc",
    "common": "base",
    "kernels": "base",
    "proto": "job",
    "server": "rpc",
    "tests": "base",
    "tests/bench": "job",
    "tests/bench/service": "rpc",
    "tests/client": "rpc",
    "tests/conformance/store": "rpc",
    # These are compiled against headers that stand in for CUDA's.
    "tests/fakes": "",
    "tests/kernels/cuda": "",
    "tests/golden": "job",
    "tests/proto": "job",
    "tests/server": "rpc",
    "tests/worker": "rpc",
    "tests/worker/trainer": "job",
    "worker": "rpc",
    "worker/collective": "base",
    "worker/trainer": "job",
}

_TEST_DEPS = [
    "//deploy/bazel/system:gtest",
    "//deploy/bazel/system:gtest_main",
]

def _header(package, deps):
    best = ""
    header = ""
    for prefix, name in _HEADERS.items():
        if (package == prefix or package.startswith(prefix + "/")) and len(prefix) > len(best):
            best = prefix
            header = name
    if header and type(deps) == "list" and [d for d in deps if d in _TEST_DEPS]:
        return header + "_test"
    return header

def _with_header(kwargs):
    header = _header(native.package_name(), kwargs.get("deps", []))
    sources = kwargs.get("srcs", [])

    # A target option, as kernels have, is another language to GCC.
    options = kwargs.get("copts", [])
    if not header or type(options) != "list" or [o for o in options if o.startswith("-m")]:
        return kwargs
    if type(sources) == "list" and not [s for s in sources if s.endswith(".cc")]:
        return kwargs
    label = "//deploy/bazel/pch:" + header
    kwargs["copts"] = options + select({
        "//deploy/bazel/pch:off": [],
        "//conditions:default": ["-include", "$(BINDIR)/deploy/bazel/pch/%s.h" % header],
    })
    kwargs["deps"] = kwargs.get("deps", []) + select({
        "//deploy/bazel/pch:off": [],
        "//conditions:default": [label],
    })
    return kwargs

def cc_library(**kwargs):
    native.cc_library(**_with_header(kwargs))

def cc_binary(**kwargs):
    native.cc_binary(**_with_header(kwargs))

def cc_test(**kwargs):
    native.cc_test(**_with_header(kwargs))
