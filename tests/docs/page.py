"""Reads a Markdown page: its fenced blocks and its directives to the tests.

A directive is an HTML comment on a line of its own, `<!-- docs-test: ... -->`;
tests/docs/README.md says what each does.
"""

import dataclasses
import re

_FENCE = re.compile(r'^(\s*)(`{3,}|~{3,})\s*([^`]*?)\s*$')
_DIRECTIVE = re.compile(r'^\s*<!--\s*docs-test:\s*(.*?)\s*-->\s*$')
_KINDS = ('setup', 'skip', 'needs', 'job', 'replace', 'run', 'wait', 'expect')
# Blocks that are run.
RUNNABLE = ('sh', 'python')


class PageError(Exception):
    """What is wrong with a page, as "file:line: message"."""


@dataclasses.dataclass
class Block:
    """A fenced block; `line` is that of its opening fence, from 1."""
    line: int
    end: int
    language: str
    text: list  # lines, without the fence's indentation
    skip: str = ''  # why it is not run
    needs: str = ''  # a command that must work for the block to be run
    job: str = ''  # a part of a job file over this one, and arguments

    @property
    def runs(self):
        return self.language in RUNNABLE or bool(self.job)


@dataclasses.dataclass
class Directive:
    """Of the kinds that act by themselves, not on the next block."""
    line: int
    kind: str
    argument: str


def read_page(path, name=None):
    """The blocks and directives of a file in order, replacements applied."""
    with open(path, encoding='utf-8') as file:
        return parse_page(file.read(), name or str(path))


def parse_page(text, name):
    items = []
    lines = text.split('\n')
    replacements = []  # [line, old, new, used]
    pending = {}  # directives for the next block: kind -> (line, argument)
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        directive = _DIRECTIVE.match(line)
        if directive:
            kind, _, argument = directive.group(1).partition(' ')
            argument = argument.strip()
            where = f'{name}:{number}'
            if kind not in _KINDS:
                raise PageError(f'{where}: no directive "{kind}"; there are: '
                                + ', '.join(_KINDS))
            if not argument:
                raise PageError(f'{where}: "{kind}" says nothing')
            if kind == 'replace':
                old, arrow, new = argument.partition(' => ')
                if not arrow or not old:
                    raise PageError(f'{where}: replace OLD => NEW')
                replacements.append([number, old, new, False])
            elif kind == 'skip':
                if not argument.startswith('because '):
                    raise PageError(f'{where}: skip because REASON')
                pending['skip'] = (number, argument[len('because '):])
            elif kind in ('needs', 'job'):
                pending[kind] = (number, argument)
            else:
                items.append(Directive(number, kind, argument))
            continue
        if re.search(r'<!--\s*docs-test', re.sub(r'`[^`]*`', '', line)):
            raise PageError(f'{name}:{number}: a directive is a comment on a '
                            'line of its own')
        fence = _FENCE.match(line)
        if not fence:
            continue
        indent, marker, language = fence.groups()
        start = number
        text_lines = []
        while True:
            if number >= len(lines):
                raise PageError(f'{name}:{start}: the fence is never closed')
            line = lines[number]
            number += 1
            if re.fullmatch(r'\s*' + re.escape(marker[0]) +
                            r'{%d,}\s*' % len(marker), line):
                break
            if line.startswith(indent):
                line = line[len(indent):]
            text_lines.append(line)
        block = Block(start, number, language, text_lines)
        for kind, (line_number, argument) in pending.items():
            if kind == 'job' and language != 'yaml':
                raise PageError(f'{name}:{line_number}: "job" is for yaml')
            if kind != 'job' and language not in RUNNABLE and (
                    kind != 'skip' or language != 'console'):
                raise PageError(f'{name}:{line_number}: "{kind}" before a '
                                'block that is never run')
            setattr(block, kind, argument)
        pending = {}
        if language in RUNNABLE:
            for replacement in replacements:
                _, old, new, _ = replacement
                if any(old in text for text in block.text):
                    block.text = [t.replace(old, new) for t in block.text]
                    replacement[3] = True
        items.append(block)
    for kind, (line_number, _) in pending.items():
        raise PageError(f'{name}:{line_number}: "{kind}" before no block')
    for line_number, old, _, used in replacements:
        if not used:
            raise PageError(f'{name}:{line_number}: no block below holds '
                            f'"{old}"')
    return items


def blocks(items):
    return [item for item in items if isinstance(item, Block)]
