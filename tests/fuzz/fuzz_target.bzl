"""Fuzz targets: one entry point, run in two ways."""

def fuzz_target(name, src, deps, corpus, size = "small"):
    """Defines a libFuzzer program and a test that replays its corpus.

    `name` is built with --config=fuzz (Clang; tests/run.sh --fuzz). The test
    NAME_corpus_test feeds every file of the corpus to the same entry point, in
    tests/run.sh --all and the sanitizers' runs.

    Args:
      name: of the program, ends in _fuzz.
      src: defines LLVMFuzzerTestOneInput.
      deps: of `src`.
      corpus: files below corpus/.
      size: of the test.
    """
    native.cc_library(
        name = name + "_entry",
        srcs = [src],
        alwayslink = True,
        testonly = True,
        deps = deps,
    )
    native.cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_entry"],
    )
    native.cc_test(
        name = name + "_corpus_test",
        size = size,
        srcs = ["replay_main.cc"],
        args = ["tests/fuzz/corpus/" + name[:-len("_fuzz")]],
        data = corpus,
        tags = ["slow"],  # to compile
        deps = [":" + name + "_entry"],
    )
