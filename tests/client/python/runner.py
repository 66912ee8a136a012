"""Runs the unittest modules that are named, and writes the XML that Bazel and
tests/run.sh read, with every case."""

import os
import sys
import time
import unittest
from xml.sax.saxutils import escape, quoteattr


class Result(unittest.TextTestResult):
    """Remembers how each case went."""

    def __init__(self, *args):
        super().__init__(*args)
        self.cases = []
        self._start = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._start = time.monotonic()

    def _add(self, test, kind="", text=""):
        seconds = time.monotonic() - self._start
        self.cases.append((test.id(), seconds, kind, text))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._add(test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._add(test, "failure", self._exc_info_to_string(error, test))

    def addError(self, test, error):
        super().addError(test, error)
        self._add(test, "failure", self._exc_info_to_string(error, test))

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self._add(subtest, "failure", self._exc_info_to_string(error, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._add(test, "skipped", reason)


def write_xml(path, cases):
    failures = sum(kind == "failure" for _, _, kind, _ in cases)
    with open(path, "w", encoding="utf-8", errors="replace") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        counts = f'tests="{len(cases)}" failures="{failures}"'
        out.write(f'<testsuites {counts}><testsuite name="python" {counts}>\n')
        for name, seconds, kind, text in cases:
            group, _, case = name.rpartition(".")
            out.write(
                f"<testcase name={quoteattr(case)} classname={quoteattr(group)} "
                f'time="{seconds:.3f}">'
            )
            clean = "".join(c if c >= " " or c in "\n\t" else "?" for c in text)
            if kind == "failure":
                out.write(f"<failure>{escape(clean)}</failure>")
            elif kind == "skipped":
                out.write(f"<skipped message={quoteattr(clean)}/>")
            out.write("</testcase>\n")
        out.write("</testsuite></testsuites>\n")


def main():
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    result = runner.run(suite)
    if os.environ.get("XML_OUTPUT_FILE"):
        write_xml(os.environ["XML_OUTPUT_FILE"], result.cases)
    if not result.cases and not result.errors:
        print("no test was found", file=sys.stderr)
        return 1
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
