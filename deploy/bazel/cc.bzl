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

# Tests are read by the compiler far longer than they run, so they are not
# optimised, except where the test's own code computes or is timed.
_OPTIMISED_TESTS = [
    "tests/bench",
    "tests/conformance/backend",
    "tests/fakes",
    "tests/fuzz",
    "tests/golden",
    "tests/gpu",
    # These include Eigen.
    "tests/worker/trainer/model/weights",
]

# _FORTIFY_SOURCE warns without optimisation.
UNOPTIMISED = ["-O0", "-U_FORTIFY_SOURCE"]

def _below(package, folder):
    return package == folder or package.startswith(folder + "/")

def _unoptimised(package):
    return _below(package, "tests") and not [f for f in _OPTIMISED_TESTS if _below(package, f)]

def _header(package):
    best = ""
    header = ""
    for prefix, name in _HEADERS.items():
        if _below(package, prefix) and len(prefix) > len(best):
            best = prefix
            header = name
    if header and _unoptimised(package):
        return header + "_test"
    return header

def _with_header(kwargs):
    package = native.package_name()
    header = _header(package)
    sources = kwargs.get("srcs", [])

    # A target option, as kernels have, is another language to GCC.
    options = kwargs.get("copts", [])
    if not header or type(options) != "list" or [o for o in options if o.startswith("-m")]:
        return kwargs
    if type(sources) == "list" and not [s for s in sources if s.endswith(".cc")]:
        return kwargs
    label = "//deploy/bazel/pch:" + header
    unoptimised = UNOPTIMISED if _unoptimised(package) else []
    kwargs["copts"] = options + select({
        "//deploy/bazel/pch:off": [],
        # -fpch-deps: objects depend on the headers within the compiled one, so
        # that a change in one of those compiles them again.
        "//conditions:default": unoptimised + ["-fpch-deps", "-include", "$(BINDIR)/deploy/bazel/pch/%s.h" % header],
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
