"""C++ code from .proto files with the system's protoc and grpc_cpp_plugin."""

def _outputs(src, grpc):
    stem = src[:-len(".proto")]
    headers = [stem + ".pb.h"]
    sources = [stem + ".pb.cc"]
    if grpc:
        headers.append(stem + ".grpc.pb.h")
        sources.append(stem + ".grpc.pb.cc")
    return headers, sources

def cc_proto(name, src, deps = [], proto_deps = [], grpc = False, root = "proto", visibility = None):
    """A cc_library from one .proto file.

    Args:
      name: the library's name.
      src: the .proto file, in this package.
      deps: cc_proto targets of the files that src imports.
      proto_deps: labels of the .proto files that src imports, transitively.
      grpc: whether src holds services.
      root: folder that include paths start below; "" for the workspace.
      visibility: as usual.
    """
    headers, sources = _outputs(src, grpc)
    out = "$(GENDIR)/" + root
    plugin = "--grpc_out=%s --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin" % out if grpc else ""
    native.genrule(
        name = name + "_gen",
        srcs = [src] + proto_deps,
        outs = headers + sources,
        # Imports of the API are relative to proto/: `comera/v1/job.proto`.
        cmd = "/usr/bin/protoc -Iproto %s -I/usr/include --cpp_out=%s %s $(location %s)" % ("" if root else "-I.", out, plugin, src),
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],
        strip_include_prefix = "/" + root if root else None,
        visibility = visibility,
        deps = deps + [
            "//deploy/bazel/system:grpc" if grpc else "//deploy/bazel/system:protobuf",
        ],
    )
