#!/usr/bin/env python3
"""Checks what ptxas reported about every kernel, and tells it as a table.

    resources.py [--hot=FILE] [--out=FILE] REPORT...

A REPORT is the output of `nvcc -Xptxas=-v`. FILE of --hot holds one regular
expression per line, matched against the start of a kernel's name: such a kernel
must neither spill registers nor use a stack frame, except where a line names an
architecture before the expression: there it may. An expression that matches no
kernel is an error too, so that a renamed kernel does not escape, and so is more
static shared memory than a device of any architecture gives a block. Exits 1 if
something is wrong, 2 if it cannot tell.
"""
import argparse
import dataclasses
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                   r"(\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
EXCEPTION = re.compile(r"(sm_\d+) +(\S.*)")

MOST_STATIC_SHARED = 48 * 1024


@dataclasses.dataclass
class Kernel:
    name: str  # mangled, then readable
    architecture: str
    registers: int = -1
    shared_bytes: int = 0  # static
    stack_bytes: int = -1
    spill_bytes: int = 0  # stores and loads


def parse(lines):
    """The kernels of one report. Functions that a kernel calls without being
    inlined stand between its entry line and its registers: they count too."""
    kernels = []
    for line in lines:
        if match := ENTRY.search(line):
            kernels.append(Kernel(match[1], match[2]))
        elif not kernels:
            continue
        elif match := FRAME.search(line):
            kernels[-1].stack_bytes = max(kernels[-1].stack_bytes,
                                          int(match[1]))
            kernels[-1].spill_bytes += int(match[2]) + int(match[3])
        elif match := USED.search(line):
            kernels[-1].registers = int(match[1])
            if match := SHARED.search(line):
                kernels[-1].shared_bytes = int(match[1])
    return kernels


def readable(mangled):
    """Demangled names without namespaces, result and parameters."""
    result = subprocess.run(["c++filt"], input="\n".join(mangled), text=True,
                            check=True, stdout=subprocess.PIPE)
    return [short(name) for name in result.stdout.splitlines()]


def short(name):
    depth = 0
    if name.endswith(")"):
        for i in range(len(name) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(name[i], 0)
            if depth == 0:
                name = name[:i]
                break
    name = re.sub(r"^void ", "", name)
    return re.sub(r"(?:\(anonymous namespace\)|[A-Za-z_]\w*)::", "", name)


def read_hot(path):
    """The expressions, and the exceptions as pairs of an architecture and one."""
    hot, exceptions = [], []
    with open(path, encoding="utf-8") as lines:
        for line in filter(None, (line.split("#")[0].strip() for line in lines)):
            if match := EXCEPTION.fullmatch(line):
                exceptions.append((match[1], re.compile(match[2])))
            else:
                hot.append(re.compile(line))
    return hot, exceptions


def table(kernels, hot):
    rows = [("kernel", "arch", "registers", "static shared", "stack", "spills",
             "hot")]
    for k in kernels:
        rows.append((k.name, k.architecture, str(k.registers),
                     str(k.shared_bytes), str(k.stack_bytes),
                     str(k.spill_bytes),
                     "hot" if any(h.match(k.name) for h in hot) else ""))
    return markdown(rows)


def markdown(rows):
    """A Markdown table: a heading and rows, whose first two cells are words and
    the others numbers."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        cells += [c.rjust(w) for c, w in zip(row[2:], widths[2:])]
        lines.append("| " + " | ".join(cells) + " |")
    lines.insert(1, "|" + "|".join(
        ("-" * (w + 1)) + (":" if i >= 2 else "-")
        for i, w in enumerate(widths)) + "|")
    return "\n".join(lines) + "\n"


def problems(kernels, hot, exceptions):
    found = []
    for k in kernels:
        if k.shared_bytes > MOST_STATIC_SHARED:
            found.append(f"{k.name} ({k.architecture}) has {k.shared_bytes} "
                         f"bytes of static shared memory, at most "
                         f"{MOST_STATIC_SHARED} are possible")
        if not any(h.match(k.name) for h in hot):
            continue
        if any(architecture == k.architecture and e.match(k.name)
               for architecture, e in exceptions):
            continue
        if k.spill_bytes:
            found.append(f"{k.name} ({k.architecture}) spills "
                         f"{k.spill_bytes} bytes")
        elif k.stack_bytes:
            found.append(f"{k.name} ({k.architecture}) uses a stack frame of "
                         f"{k.stack_bytes} bytes")
    for h in hot:
        if not any(h.match(k.name) for k in kernels):
            found.append(f"no kernel matches '{h.pattern}' of the hot list")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hot", help="expressions, one per line")
    parser.add_argument("--out", help="write the table here too")
    parser.add_argument("reports", nargs="+")
    args = parser.parse_args()
    kernels = []
    for path in args.reports:
        with open(path, encoding="utf-8") as report:
            kernels += parse(report)
    if not kernels:
        print("resources.py: no kernel in these reports", file=sys.stderr)
        return 2
    for k in kernels:
        if k.registers < 0 or k.stack_bytes < 0:
            print(f"resources.py: ptxas said nothing of {k.name}: another "
                  "version's format?", file=sys.stderr)
            return 2
    for k, name in zip(kernels, readable([k.name for k in kernels])):
        k.name = name
    kernels.sort(key=lambda k: (k.name, k.architecture))
    hot, exceptions = read_hot(args.hot) if args.hot else ([], [])
    text = table(kernels, hot)
    sys.stdout.write(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as out:
            out.write(text)
    found = problems(kernels, hot, exceptions)
    for problem in found:
        print(f"resources.py: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
