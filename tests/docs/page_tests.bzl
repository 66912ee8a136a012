"""Tests that run the commands of pages."""

def page_tests(pages, sizes = {}, tags = {}, data = []):
    """A test NAME_page_test for each page.

    Pages come from a glob, unlike sources elsewhere in this tree, so that no
    page is written without its test.

    Args:
      pages: Markdown files of this package.
      sizes: by page; the others are of medium size.
      tags: by page; in addition.
      data: what the commands read beside the programs, docs/examples and
        deploy/'s scripts.
    """
    for page in pages:
        package = native.package_name()
        native.sh_test(
            name = page[:-len(".md")].replace("/", "_") + "_page_test",
            size = sizes.get(page, "medium"),
            srcs = ["//tests/docs:run_page.py"],
            args = [package + "/" + page if package else page],
            data = [
                page,
                "//client:comera",
                "//docs/examples",
                "//server:comera-server",
                "//tests/docs:runner",
                "//worker:comera-worker",
                "//worker/trainer:comera-trainer",
            ] + data,
            # Programs that run on.
            tags = ["nosan"] + tags.get(page, []),
        )
