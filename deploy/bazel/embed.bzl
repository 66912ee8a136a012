"""Files as parts of a program."""

def embed_file(name, src, symbol, namespace = "comera::server", visibility = None):
    """A cc_library with `std::string_view NAMESPACE::SYMBOL()`.

    Args:
      name: of the library and its header NAME.h.
      src: the file.
      symbol: of the function that returns the file's bytes.
      namespace: of that function.
      visibility: as usual.
    """
    native.genrule(
        name = name + "_gen",
        srcs = [src],
        outs = [name + ".h", name + "_bytes.S"],
        cmd = """
cat > $(location %s.h) <<END
#pragma once
#include <string_view>
extern "C" const char comera_embedded_%s[];
extern "C" const char comera_embedded_%s_end[];
namespace %s {
inline std::string_view %s() {
  return {comera_embedded_%s, static_cast<size_t>(
      comera_embedded_%s_end - comera_embedded_%s)};
}
}  // namespace %s
END
# Bazel does not see the file that .incbin reads: with its digest in the source,
# the source changes when the file does.
cat > $(location %s_bytes.S) <<END
  /* $$(sha256sum < $(location %s)) */
  .section .rodata
  .global comera_embedded_%s
  .global comera_embedded_%s_end
comera_embedded_%s:
  .incbin "$(location %s)"
comera_embedded_%s_end:
  .byte 0
  .section .note.GNU-stack,"",%%progbits
END
""" % (name, symbol, symbol, namespace, symbol, symbol, symbol, symbol, namespace, name, src, symbol, symbol, symbol, src, symbol),
    )
    native.cc_library(
        name = name,
        srcs = [name + "_bytes.S"],
        hdrs = [name + ".h"],
        # The file that .incbin reads.
        textual_hdrs = [src],
        visibility = visibility,
    )
