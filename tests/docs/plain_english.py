#!/usr/bin/env python3
"""Checks that comments and names are plain English.

  plain_english.py [--root DIR] [--count]

Of every source in the tree:

- A comment does not begin as a fragment that hangs on the name below it ("Of
  the cores.", "Who may not."), but with the thing declared ("Rows of W that
  this core multiplies."). The words Of, That, Those, Which, Who, Whom and Whose
  never begin a comment; As and For may where a main clause follows after a
  comma ("As in CUDA, entries behind it are ignored.").
- Every .cc file opens with one line that says what the file does.
- C++ names use the field's words, not a dialect of this project.
- A process of a gang is called a member; a rank is the size of a bond, or a
  place in a communicator.

Prints `file:line: what is wrong; how to mend it`; --count prints the number of
problems of each folder in their place. Exit status 1 if there are any.
"""

import argparse
import collections
import os
import pathlib
import re
import sys

_SUFFIXES = ('.cc', '.h', '.cuh', '.proto', '.bzl', '.py', '.sh', '.ts', '.tsx')
_CPP = ('.cc', '.h', '.cuh')
_HASH = ('.bzl', '.py', '.sh')
# Folders without sources of our own: packages, generated code, fuzzing inputs.
_SKIPPED = ('node_modules', 'shared', 'out', 'dist', '_proto', 'corpus')

_FRAGMENT = re.compile(r'(Of|That|Those|Which|Who|Whom|Whose)\b')
_PREPOSITION = re.compile(r'(As|For)\b')
_TRAILING_FRAGMENT = re.compile(r'(of|that|those|which|who|whom|whose)\b', re.I)

# What to call it instead. A name matches as a whole word of C++ code.
_DIALECT = (
    (r'Take[A-Z]\w*', 'Pop, Read, Claim, Consume or Apply'),
    (r'Tell[A-Z]\w*|Tell(?=\()', 'Write, Report or Describe'),
    (r'Foresee\w*', 'Forecast or Predict'),
    (r'LookAt\w*|LookFor\w*|Look(?=\()', 'Scan, Poll, Check or Inspect'),
    (r'Gone\w*', 'Removed, Ended or Closed'),
    (r'Durable(?=\()', 'MarkDurable, IsDurable or Sync'),
    (r'RoomFor\w*', 'Capacity or Padded'),
)
_ANY_DIALECT = re.compile('|'.join(rf'\b(?:{name})' for name, _ in _DIALECT))
# Names that are right all the same, with the reason.
EXCEPTIONS = {
    'TakeAll': "CLI11's own name for a policy of options",
}

_PHRASES = re.compile(
    r"\brank(?:'s)? process(?:es)?\b|\branks' processes\b"
    r'|\branks (?:die|hang|end by themselves)\b'
    r'|\brank (?:dies|died|hangs|crashes|crashed|was killed|is killed)\b'
    r'|\b(?:dead|killed|crashed) ranks\b|\bper-rank process', re.I)
# Here a rank is what NCCL and Gloo call one: a place in a communicator.
_COMMUNICATORS = ('worker/collective/', 'tests/worker/collective/',
                  'tests/conformance/communicator/', 'tests/fakes/nccl/',
                  'tests/gpu/')


def sources(root):
    """Paths of the sources below `root`, relative to it."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and
            not name.startswith(('.', 'bazel-')))
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if ((name == 'BUILD' or name.endswith(_SUFFIXES)) and
                    not path.is_symlink()):
                yield str(path.relative_to(root))


def _is_fragment(text):
    """Whether a comment's text begins as a fragment."""
    if _FRAGMENT.match(text):
        return True
    # A main clause can only follow after a comma within the first clause.
    first = re.split(r'[.:;](?=\s|$)', text, 1)[0]
    return bool(_PREPOSITION.match(text)) and ',' not in first


def _comment_problems(lines, marker):
    whole = re.compile(rf'\s*(?:{marker}|/\*\*?)(?:\s+(.*))?$')
    trailing = re.compile(rf'\S.*?\s\s(?:{marker})\s+(.*)$')
    block = None  # line and text of the comment that is being read
    for number, line in enumerate(lines + [''], 1):
        match = whole.match(line)
        if match and block is None:
            block = (number, match[1] or '')
        elif match:
            block = (block[0], f'{block[1]} {match[1] or ""}')
        else:
            if block and _is_fragment(block[1]):
                yield (block[0], f'a comment begins with "{block[1].split()[0]}"'
                       '; write a sentence whose subject is the thing declared')
            block = None
            match = marker in line and trailing.search(line)
            if match and _TRAILING_FRAGMENT.match(match[1]):
                yield (number, f'a trailing comment begins with '
                       f'"{match[1].split()[0]}"; name the thing itself, or '
                       'put a sentence above the line')


def _opening_problems(path, lines):
    words = set(re.findall(r'[a-z0-9]+', pathlib.Path(path).stem.lower()))
    opening = lines[0] if lines else ''
    if not opening.startswith('//'):
        yield 1, 'no opening line; say in one sentence what the file does'
    elif set(re.findall(r'[a-z0-9]+', opening.lower())) <= words | {
            'a', 'an', 'the', 'of', 'cc', 'test', 'tests'}:
        yield 1, 'the opening line repeats the name; say what the file does'


_NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<delimiter>[^(\s"]*)\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])'", re.S)


def _name_problems(text):
    code = _NO_CODE.sub(lambda match: '\n' * match[0].count('\n'), text)
    for number, line in enumerate(code.split('\n'), 1):
        for match in _ANY_DIALECT.finditer(line):
            if match[0] in EXCEPTIONS:
                continue
            hint = next(hint for name, hint in _DIALECT
                        if re.match(name, line[match.start():]))
            yield (number, f'the name {match[0]} is dialect; call it after '
                   f'what it does, e.g. {hint}')


def _phrase_problems(lines):
    for number, line in enumerate(lines, 1):
        for match in _PHRASES.finditer(line):
            yield (number, f'"{match[0]}": a process of a gang is a member; '
                   'say so')


def problems(path, text):
    """Pairs (line, what is wrong and how to mend it) of one source."""
    suffix = pathlib.Path(path).suffix
    lines = text.split('\n')
    hashes = suffix in _HASH or path.endswith('BUILD')
    found = list(_comment_problems(lines, '#' if hashes else '//'))
    if suffix == '.cc':
        found += _opening_problems(path, lines)
    if suffix in _CPP:
        found += _name_problems(text)
    if not path.startswith(_COMMUNICATORS):
        found += _phrase_problems(lines)
    return sorted(found)


def tree_problems(root):
    """Lines `file:line: what is wrong; how to mend it` of the whole tree."""
    for path in sources(root):
        # These name what they look for.
        if path.startswith('tests/docs/plain_english'):
            continue
        text = (pathlib.Path(root) / path).read_text(encoding='utf-8')
        for line, what in problems(path, text):
            yield f'{path}:{line}: {what}'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--root', type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument('--count', action='store_true')
    flags = parser.parse_args()
    found = list(tree_problems(flags.root))
    if flags.count:
        folders = collections.Counter(
            '/'.join(line.split(':')[0].split('/')[:2]) for line in found)
        for folder, count in folders.most_common():
            print(f'{count:5} {folder}')
    else:
        print('\n'.join(found), end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
