#!/usr/bin/python3
"""The runner of the documentation's commands, on pages that do and do not work."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

_FOLDER = pathlib.Path(os.path.realpath(__file__)).parent
sys.path.insert(0, str(_FOLDER))
import page  # pylint: disable=wrong-import-position


class PageTest(unittest.TestCase):

    def test_blocks_keep_their_lines(self):
        items = page.parse_page('a\n```sh\nls\n```\n\n- x\n  ```yaml\n  k: 1\n'
                                '  ```\n', 'p.md')
        self.assertEqual([(b.line, b.end, b.language, b.text) for b in items],
                         [(2, 4, 'sh', ['ls']), (7, 9, 'yaml', ['k: 1'])])

    def test_a_longer_fence_holds_a_shorter_one(self):
        items = page.parse_page('````text\n```sh\nls\n```\n````\n', 'p.md')
        self.assertEqual([b.language for b in items], ['text'])

    def test_replacements_hold_from_there_on(self):
        items = page.parse_page(
            '```sh\nx 1\n```\n<!-- docs-test: replace 1 => 2 -->\n```sh\nx 1\n'
            '```\n```text\nx 1\n```\n', 'p.md')
        self.assertEqual([b.text[0] for b in items], ['x 1', 'x 2', 'x 1'])

    def test_what_is_wrong_is_told_with_its_line(self):
        block = '```sh\nls\n```\n'
        for text, message in (
                ('\n```sh\nls\n', 'p.md:2: the fence is never closed'),
                ('<!-- docs-test: skip -->\n' + block, 'p.md:1: "skip" says'),
                ('<!-- docs-test: skip it -->\n' + block,
                 'p.md:1: skip because REASON'),
                ('<!-- docs-test: jump over -->\n', 'p.md:1: no directive'),
                ('<!-- docs-test: needs ls -->\n', 'p.md:1: "needs" before no'),
                ('<!-- docs-test: needs ls -->\n```text\n```\n',
                 'p.md:1: "needs" before a block that is never run'),
                ('<!-- docs-test: replace a => b -->\n' + block,
                 'p.md:1: no block below holds "a"'),
                ('<!-- docs-test: job a.yaml -->\n' + block,
                 'p.md:1: "job" is for yaml'),
                ('x <!-- docs-test: run ls -->\n', 'p.md:1: a directive is')):
            with self.subTest(text=text):
                with self.assertRaises(page.PageError) as raised:
                    page.parse_page(text, 'p.md')
                self.assertIn(message, str(raised.exception))


class RunTest(unittest.TestCase):

    def run_page(self, text):
        """Exit status and output."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / 'tree'
            programs = pathlib.Path(folder) / 'programs'
            for path in (root / 'docs', programs):
                path.mkdir(parents=True)
            for name in ('comera', 'comera-server', 'comera-worker',
                         'comera-trainer'):
                program = programs / name
                program.write_text('#!/bin/sh\necho "$0" "$@"\n')
                program.chmod(0o755)
            (root / 'docs' / 'p.md').write_text(text)
            done = subprocess.run(
                [_FOLDER / 'run_page.py', 'docs/p.md', '--root', root,
                 '--programs', programs], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
            return done.returncode, done.stdout

    def assert_fails(self, text, message):
        status, output = self.run_page(text)
        self.assertEqual(status, 1, output)
        self.assertIn('FAILED ' + message, output)

    def test_one_shell_and_one_python_for_the_page(self):
        status, output = self.run_page(
            '```sh\ncd docs\nexport NUMBER=6\n```\n'
            '```python\nimport os\nnumber = int(os.environ["NUMBER"])\n```\n'
            '```sh\ncomera ls; test -e p.md\n```\n'
            '<!-- docs-test: expect /bin/comera ls$ -->\n'
            '```python\nprint("product", 7 * number, os.path.exists("p.md"))\n'
            '```\n<!-- docs-test: expect product 42 True -->\n')
        self.assertEqual(status, 0, output)
        self.assertIn('all commands work', output)

    def test_a_page_without_commands(self):
        status, output = self.run_page('text\n```yaml\na: 1\n```\n')
        self.assertEqual(status, 0)
        self.assertIn('has no commands', output)

    def test_the_failing_line_is_named(self):
        self.assert_fails('a\n\n```sh\ntrue\nls /nowhere\ntrue\n```\n',
                          'docs/p.md:5: exit 2: ls /nowhere')
        self.assert_fails('```sh\nls | grep nothing | cat\n```\n',
                          'docs/p.md:2: exit 1')
        self.assert_fails('```sh\nf() {\n  false\n}\n```\n```sh\nf\n```\n',
                          'docs/p.md:3: exit 1: false')

    def test_python_that_fails(self):
        status, output = self.run_page('a\n```python\nx = 1\n1 / (x - 1)\n```\n')
        self.assertEqual(status, 1)
        self.assertIn('p.md.py", line 4', output)
        self.assertIn('ZeroDivisionError', output)

    def test_what_was_expected_is_missing(self):
        self.assert_fails('```sh\necho one\n```\n```sh\necho two\n```\n'
                          '<!-- docs-test: expect one -->\n',
                          'docs/p.md:7: exit 1: ')

    def test_a_shell_that_ends_early(self):
        self.assert_fails('```sh\nexit 0\n```\n```sh\nls\n```\n',
                          'docs/p.md')
        self.assert_fails('```sh\nif true; then\n```\n', 'docs/p.md:1: ')
        self.assert_fails("```sh\ncat <<'EOF'\nx\n```\n", 'docs/p.md:1: ')

    def test_skips_are_shown_with_their_reason(self):
        status, output = self.run_page(
            '<!-- docs-test: skip because it needs a GPU -->\n'
            '```sh\nfalse\n```\n'
            '<!-- docs-test: needs ls /nowhere -->\n```sh\nfalse\n```\n'
            '<!-- docs-test: needs ls / -->\n```sh\necho came here\n```\n')
        self.assertEqual(status, 0, output)
        self.assertIn('docs/p.md:2: SKIPPED: it needs a GPU', output)
        self.assertIn('docs/p.md:6: SKIPPED: needs: ls /nowhere', output)
        self.assertIn('came here', output)

    def test_parts_of_job_files(self):
        base = ('```sh\necho "{data: {jsonl: {}}, late: {a: 1}, model: {b: 2, '
                'c: 3}}" > base.yaml\n```\n')
        status, output = self.run_page(
            base + '<!-- docs-test: job base.yaml --set x=1 -->\n```yaml\n'
            'data: {glue_tsv: {}}\nlate: {d: 4}\nmodel:\n  b: 5\n```\n'
            '<!-- docs-test: expect comera validate .*job.yaml --set x=1 -->\n'
            '```sh\ncat "$DOCS_WORK/job.yaml"\n```\n'
            '<!-- docs-test: expect ^  b: 5$ -->\n'
            '<!-- docs-test: expect ^  c: 3$ -->\n'
            '<!-- docs-test: expect ^  d: 4$ -->\n')
        self.assertEqual(status, 0, output)
        self.assertNotIn('  a: 1', output)
        self.assertNotIn('jsonl', output.split('job.yaml"')[-1])
        self.assert_fails(
            base + '<!-- docs-test: job base.yaml -->\n```yaml\na: [\n```\n',
            'docs/p.md:')

    def test_nothing_outlives_the_page(self):
        status, output = self.run_page(
            '```sh\nsetsid sleep 1000 &\necho process $!\n```\n')
        self.assertEqual(status, 0, output)
        process = output.split('process ')[1].split()[0]
        self.assertFalse(os.path.exists('/proc/' + process))

    def test_home_and_ports_are_private(self):
        status, output = self.run_page(
            '```sh\necho "home $HOME"\n```\n'
            '```python\nimport socket\ns = socket.socket()\n'
            's.bind(("127.0.0.1", 7400))\n```\n')
        self.assertEqual(status, 0, output)
        self.assertNotIn('home ' + os.environ.get('HOME', '/root') + '\n',
                         output)


if __name__ == '__main__':
    unittest.main()
