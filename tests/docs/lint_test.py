#!/usr/bin/python3
"""lint.py finds each kind of thing that is wrong, and nothing in a right page."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import lint  # pylint: disable=wrong-import-position

_COMERA = r'''#!/bin/sh
case "$1 $2" in
  "ls "*) echo "  --limit INT" ;;
  "token create") echo "  --role TEXT" ;;
  "token "*) echo "  --all" ;;
  "--help "*) printf '  --server TEXT\nSubcommands:\n  ls    List\n  token  Make\n' ;;
  *) exit 2 ;;
esac
'''


class LintTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / 'tree'
        for path, text in (
                ('docs/BUILD', 'page_tests(pages = glob(["*.md"]))'),
                ('tests/e2e/BUILD', 'cc_test(\n    name = "kill_test",\n)'),
                ('tests/run.sh', ''),
                ('docs/other.md', '# The `x` of it, twice!\n\n# Two\n\n# Two\n'),
                ('worker/gang/member_table.h', '')):
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        programs = pathlib.Path(folder.name) / 'programs'
        programs.mkdir()
        for name, text in (('comera', _COMERA),
                           ('comera-server', '#!/bin/sh\necho "  --listen"')):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.lint = lint.Lint(self.root, programs)

    def problems(self, text, page='docs/page.md'):
        file = self.root / page
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.lint.problems = []
        self.lint.check(pathlib.Path(page))
        return self.lint.problems

    def test_right_pages(self):
        for text in (
                '[a](other.md) [b](other.md#two-1) ![c](../tests/run.sh)\n',
                '[x](other.md#the-x-of-it-twice) [y](https://example.com/a)\n',
                '```console\nwhat was printed\n```\n',
                '<!-- docs-test: skip because it needs root -->\n'
                '```console\n$ comera ls\n```\n',
                '`//tests/e2e:kill_test` `//docs:other_page_test` `//...`\n',
                "```sh\nsed -n 's/a: //p' file\n```\n",
                '`worker/gang/member_table` `tests/run.sh` `docs/{other.md,BUILD}`\n',
                '`comera ls --limit 3` `comera --server a:1 ls`\n',
                '`comera token create --role user`, `comera run_it`\n',
                '```sh\ncomera-server --listen=a &\ncomera ls --limit 1\n```\n',
                '<!-- docs-test: skip because slow, run by tests/run.sh -->\n'
                '```sh\nfoo\n```\n',
                'https://example.com/a//tests:none\n'):
            with self.subTest(text=text):
                self.assertEqual(self.problems(text), [])

    def test_wrong_pages(self):
        for text, problem in (
                ('a\n[a](none.md)\n', '2: none.md leads nowhere'),
                ('[a](other.md#three)\n', '1: no heading for #three'),
                ('[a](#none)\n', '1: no heading for #none'),
                ('```\nls\n```\n', '1: a block in the language ""'),
                ('```bash\nls\n```\n', '1: a block in the language "bash"'),
                ('```sh\nif true\n```\n', 'docs/page.md:1: '),
                ('```console\n$ ls\n```\n', '1: commands that no test runs'),
                ('<!-- docs-test: skip because ... -->\n'
                 '```console\n$ comera ls --none\n```\n',
                 '2: comera has no --none'),
                ('```sh\nls\n', '1: the fence is never closed'),
                ('<!-- docs-test: setup none -->\n', '1: no setup none'),
                ('<!-- docs-test: skip because slow, run by //a:b. -->\n'
                 '```sh\nfoo\n```\n', '2: there is no //a:b'),
                ('`//tests/e2e:none_test`\n', '1: there is no target'),
                ('```sh\nx //tests/none:x\n```\n', '2: there is no target'),
                ('a `tests/none.sh` b\n', '1: there is no tests/none.sh'),
                ('`docs/{other.md,none}`\n', '1: there is no docs/none'),
                ('\n`comera jump`\n', '2: comera has no "jump"'),
                ('`comera ls --none`\n', '1: comera has no --none'),
                ('`comera token create --limit 3`\n', 'comera has no --limit'),
                ('```sh\nx=1 comera-server --none\n```\n',
                 'comera-server has no --none')):
            with self.subTest(text=text):
                problems = self.problems(text)
                self.assertEqual(len(problems), 1, problems)
                self.assertIn(problem, problems[0])

    def test_pages_that_nobody_finds(self):
        self.assertEqual(self.problems('[o](other.md)\n'), [])
        self.assertEqual(self.problems('[d](docs/page.md)\n', 'README.md'), [])
        self.lint.check_orphans()
        self.assertEqual(self.lint.problems, [])
        (self.root / 'docs/lost.md').write_text('x\n')
        self.lint.check_orphans()
        self.assertEqual(len(self.lint.problems), 1)
        self.assertIn('docs/lost.md:1: no page leads here',
                      self.lint.problems[0])

    def test_commands_where_no_test_runs_them(self):
        text = '```sh\nls\n```\n'
        self.assertIn('no test runs', self.problems(text, 'worker/a.md')[0])
        self.assertEqual(self.problems(text, 'README.md'), [])


if __name__ == '__main__':
    unittest.main()
