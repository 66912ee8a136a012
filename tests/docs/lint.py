#!/usr/bin/python3
"""Checks what the documentation refers to.

  lint.py [--root DIR] [--programs DIR]

Of every Markdown page in the tree: links and anchors lead somewhere; fenced
blocks name their language, so that no command hides from the tests; blocks of
shell commands lie in pages that tests run, and parse; what a skipped block says
it is `run by` exists; Bazel labels, files and folders that are named exist;
verbs and flags of our programs are those that --help knows; every page of docs/
and deploy/ is reached by links from the README.
"""

import argparse
import functools
import os
import pathlib
import re
import subprocess
import sys

import page as page_module
import run_page

# Folders whose pages have a test each (page_tests.bzl).
_TESTED = ('', 'client/python', 'deploy', 'docs')
_LANGUAGES = ('sh', 'python', 'console', 'text', 'yaml', 'json', 'proto',
              'ini', 'cpp', 'diff', 'toml', 'typescript', 'promql', 'textproto',
              'mermaid')
_SKIPPED_FOLDERS = ('node_modules', 'shared', 'corpus')
_LINK = re.compile(r'!?\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^()\s]+)\)')
_CODE = re.compile(r'(`+)(.+?)\1(?!`)', re.DOTALL)
_LABEL = re.compile(r'//[a-z][\w/.+-]*(?::[\w.+-]+)?')
_PROGRAMS = ('comera', 'comera-server', 'comera-worker', 'comera-trainer')


def slug(heading):
    """The anchor that GitHub gives a heading."""
    heading = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', heading).strip().lower()
    return re.sub(r'[^\w\- ]', '', heading).replace(' ', '-')


def anchors(path):
    found, seen, fenced = set(), {}, False
    for line in path.read_text(encoding='utf-8').split('\n'):
        if re.match(r'\s*(```|~~~)', line):
            fenced = not fenced
        heading = re.match(r'#{1,6}\s+(.*?)\s*#*$', line)
        if heading and not fenced:
            name = slug(heading.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f'{name}-{count}' if count else name)
        found.update(re.findall(r'<a\s+(?:id|name)="([^"]+)"', line))
    return found


def pages(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(
            ('.', 'bazel-')) and f not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            if name.endswith('.md'):
                yield pathlib.Path(folder, name).relative_to(root)


class Lint:

    def __init__(self, root, programs):
        self.root = root
        self.programs = programs
        self.problems = []
        self.links = {}  # page -> pages that it leads to
        self.tops = {p.name for p in root.iterdir() if p.is_dir() and
                     not p.name.startswith(('.', 'bazel-'))}

    def check(self, name):
        text = (self.root / name).read_text(encoding='utf-8')
        try:
            items = page_module.parse_page(text, str(name))
            self.check_blocks(name, items)
        except page_module.PageError as error:
            self.problems.append(str(error))
            return
        lines = text.split('\n')
        for block in page_module.blocks(items):
            if block.language in page_module.RUNNABLE:
                for number, line in enumerate(block.text, block.line + 1):
                    self.check_labels(name, number, line)
                self.check_commands(name, block.line,
                                    '\n'.join(block.text), whole=True)
            elif block.language == 'console':
                self.check_commands(name, block.line, '\n'.join(
                    re.sub(r'^\$ ', '', line) for line in block.text),
                                    whole=True)
            lines[block.line - 1:block.end] = [''] * (block.end - block.line +
                                                      1)
        self.check_links(name, lines)
        prose = '\n'.join(lines)
        for code in _CODE.finditer(prose):
            number = prose.count('\n', 0, code.start()) + 1
            span = code.group(2).strip()
            self.check_labels(name, number, span)
            self.check_path(name, number, span)
            self.check_commands(name, number, span, whole=False)

    def problem(self, name, number, text):
        self.problems.append(f'{name}:{number}: {text}')

    def check_blocks(self, name, items):
        run_page.check_syntax(str(name), items)
        tested = str(name.parent) in ('.',) + _TESTED
        for item in items:
            if isinstance(item, page_module.Directive):
                setup = self.root / 'tests/docs/setup' / f'{item.argument}.sh'
                if item.kind == 'setup' and not setup.exists():
                    self.problem(name, item.line,
                                 f'no setup {item.argument}')
                continue
            if item.language not in _LANGUAGES:
                self.problem(name, item.line, 'a block in the language '
                             f'"{item.language}"; there are: ' +
                             ', '.join(_LANGUAGES))
            if (item.language in page_module.RUNNABLE and not item.skip and
                    not tested):
                self.problem(name, item.line, 'no test runs this block: move '
                             'it to a folder with page_tests, or skip it')
            if (item.language == 'console' and not item.skip and
                    any(line.startswith('$ ') for line in item.text)):
                self.problem(name, item.line, 'commands that no test runs: '
                             'make it sh, or skip it and say why')
            runner = re.search(r'\brun by (\S+)', item.skip)
            if runner and not self.exists(runner.group(1).rstrip('.,;')):
                self.problem(name, item.line,
                             f'there is no {runner.group(1)}')

    def exists(self, thing):
        return (self.label_exists(thing) if thing.startswith('//') else
                (self.root / thing).exists())

    def check_labels(self, name, number, text):
        for match in _LABEL.finditer(text):
            before = text[match.start() - 1:match.start()]
            if before not in ('', ' ', '=', '`', '(', ',', '"', "'"):
                continue  # part of an address, or of a repository
            if not re.search('[/:]', match.group()[2:]):
                continue  # part of a sed expression
            label = match.group().rstrip('.') if not match.group().endswith(
                '...') else match.group()
            if 'NAME' not in label and not self.label_exists(label):
                self.problem(name, number, f'there is no target {label}')

    def label_exists(self, label):
        package, _, target = label[2:].partition(':')
        if package.endswith('...'):
            return (self.root / package[:-3]).is_dir()
        folder = self.root / package
        if not (folder / 'BUILD').exists():
            return False
        target = target or folder.name
        if target in ('all', '...') or (folder / target).exists():
            return True
        return self.has_target(folder, target)

    @functools.lru_cache(maxsize=None)
    def build_text(self, folder):
        return (folder / 'BUILD').read_text(encoding='utf-8')

    def has_target(self, folder, target):
        text = self.build_text(folder)
        if f'"{target}"' in text:
            return True
        # Made by page_tests.bzl, cuda_library.bzl.
        if target.endswith('_page_test') and 'page_tests(' in text:
            return (folder / (target[:-len('_page_test')] + '.md')).exists()
        library = re.fullmatch(r'(.+)_(ptxas|cubins)', target)
        return library is not None and f'"{library[1]}"' in text

    def check_path(self, name, number, span):
        """Code that looks like a path from the top of the tree."""
        word = span.split()[0] if span.split() else ''
        top = word.split('/')[0]
        if '/' not in word or top not in self.tops or re.search(
                r'[<>*$()\[\]=@|]|\.\.\.|…', word):
            return
        word = re.sub(r'(:[\d-]+|[.,:;])$', '', word)
        if word.endswith('/N') or 'NAME' in word or re.search(r'/[A-Z]+(/|$)', word):
            return
        if '{' in word:
            choices = re.fullmatch(r'([^{}]*)\{([^{}]*)\}([^{}]*)', word)
            words = [choices.group(1) + c + choices.group(3) for c in
                     choices.group(2).split(',')] if choices else []
        else:
            words = [word]
        for each in words:
            path = self.root / each
            # A class may be named without its endings.
            if not path.exists() and not list(
                    path.parent.glob(path.name + '[._]*')):
                self.problem(name, number, f'there is no {each}')

    def check_links(self, name, lines):
        for number, line in enumerate(lines, 1):
            line = _CODE.sub(lambda m: 'x' * len(m.group()), line) if not (
                _LINK.search(line)) else line
            for target in _LINK.findall(line):
                if re.match(r'[a-z]+:', target):
                    continue
                path, _, anchor = target.partition('#')
                file = ((self.root / name).parent / path if path else
                        self.root / name)
                if not file.exists():
                    self.problem(name, number, f'{target} leads nowhere')
                    continue
                self.links.setdefault(str(name), set()).add(
                    os.path.relpath(file.resolve(), self.root))
                if anchor and (not file.is_file() or
                                 anchor not in anchors(file)):
                    self.problem(name, number, f'no heading for #{anchor}')

    def check_orphans(self):
        """Every page of docs/ and deploy/ can be found from the README."""
        found, queue = {'README.md'}, ['README.md']
        while queue:
            for page in self.links.get(queue.pop(), ()):
                if page not in found:
                    found.add(page)
                    queue.append(page)
        for name in pages(self.root):
            if (str(name.parent) in ('docs', 'deploy') and
                    str(name) not in found):
                self.problem(name, 1, 'no page leads here: add it to '
                             'docs/README.md')

    @functools.lru_cache(maxsize=None)
    def help(self, program, verb=None):
        """What --help prints; None: no such program or verb."""
        command = [self.programs / program] + ([verb] if verb else [])
        done = subprocess.run(command + ['--help'], capture_output=True,
                              text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def check_commands(self, name, number, text, whole):
        if self.programs is None:
            return
        text = text.replace('\\\n', ' ')
        # Commands of a block may follow others in a line.
        pattern = (r'(?:^|[;|&({]\s*|\n\s*)' if whole else r'^') + (
            r'((?:\w+=\S+\s+)*)(comera(?:-server|-worker|-trainer)?)'
            r'((?:\s+[^\n;|&#)]+)?)')
        for match in re.finditer(pattern, text):
            program, rest = match.group(2), match.group(3).split()
            help_text = self.help(program) or ''
            flags = set(re.findall(r'--[a-z][\w-]*', help_text))
            flags.update(('--help', '--version'))
            if program == 'comera':
                verbs = re.findall(r'^  ([a-z][a-z-]*) {2,}', help_text,
                                   re.MULTILINE)
                verb = next((w for w in rest if w in verbs), None)
                first = next((w for i, w in enumerate(rest) if not
                              w.startswith('-') and not (
                                  i and rest[i - 1] in (
                                      '--server', '--ca', '--token-file', '-o',
                                      '--timeout', '--cert', '--key'))), None)
                if first and re.fullmatch(r'[a-z][a-z-]*', first) and (
                        first not in verbs):
                    self.problem(name, number, f'comera has no "{first}"')
                    continue
                if verb:
                    flags.update(re.findall(r'--[a-z][\w-]*',
                                            self.help(program, verb) or ''))
                    for word in rest:  # verbs below verbs
                        if re.fullmatch(r'[a-z]+', word) and word != verb:
                            flags.update(self.nested_flags(verb, word))
            for word in rest:
                flag = re.match(r'--[a-z][\w-]*', word)
                if flag and flag.group() not in flags:
                    self.problem(name, number,
                                 f'{program} has no {flag.group()}')

    @functools.lru_cache(maxsize=None)
    def nested_flags(self, verb, word):
        done = subprocess.run([self.programs / 'comera', verb, word, '--help'],
                              capture_output=True, text=True, check=False)
        return frozenset(re.findall(r'--[a-z][\w-]*', done.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--root', type=pathlib.Path, default=pathlib.Path(
        os.path.realpath(__file__)).parent.parent.parent)
    parser.add_argument('--programs', type=pathlib.Path,
                        help='folder with our programs; without it verbs and '
                        'flags are not checked')
    options = parser.parse_args()
    lint = Lint(options.root.resolve(), options.programs)
    count = 0
    for name in pages(lint.root):
        lint.check(name)
        count += 1
    lint.check_orphans()
    for problem in lint.problems:
        print(problem)
    print(f'{count} pages, {len(lint.problems)} problems')
    return 1 if lint.problems or not count else 0


if __name__ == '__main__':
    sys.exit(main())
