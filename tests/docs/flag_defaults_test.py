#!/usr/bin/env python3
"""The tables of flags in docs/ tell the defaults that --help tells."""

import os
import pathlib
import re
import subprocess
import unittest

_ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent.parent
_PROGRAMS = {'comera-server': 'server/comera-server'}
_SCALE = {'': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30, 'TiB': 2**40}
_HEADER = re.compile(r'\| flag of ([\w-]+) \| default \|')


def help_defaults(text):
    """The default of each flag in the text of --help; None: it has none."""
    defaults = {}
    for line in text.split('\n'):
        # What a flag does stands behind two spaces, or on the next line.
        flag = re.match(r'  (?:-\w,)?(--[\w-]+)(.*?)(?:  |$)', line)
        if flag:
            # A switch that is on tells so in its text.
            value = (re.search(r'=([^\s=()\[\]]+)$', flag.group(2)) or
                     re.search(r'; default: (true)$', line))
            defaults[flag.group(1)] = value.group(1) if value else None
    return defaults


def tables(text):
    """The program, the flags and the defaults of each row of such a table."""
    program = None
    for line in text.split('\n'):
        header = _HEADER.match(line)
        if header:
            program = header.group(1)
        elif not line.startswith('|'):
            program = None
        elif program:
            cells = [cell.strip() for cell in line.strip('|').split('|')]
            flags = re.findall(r'`(--[\w-]+)', cells[0])
            if flags:
                # Defaults of several flags stand side by side.
                yield program, flags, cells[1].split(', ', len(flags) - 1)


def agree(told, real):
    """Whether a page's text tells the default of --help."""
    if told in ('none', 'off'):
        return real is None
    if real is None:
        return False
    if told.startswith('`'):
        return told.strip('`') == real
    number = re.match(r'(\d[\d,]*(?:\.\d+)?)(?: ([KMGT]iB)\b)?', told)
    if not number:
        return False
    value = float(number.group(1).replace(',', ''))
    try:
        return value * _SCALE[number.group(2) or ''] == float(real)
    except ValueError:
        return False


class FlagDefaultsTest(unittest.TestCase):

    def setUp(self):
        self.defaults = {
            name: help_defaults(subprocess.run(
                [os.path.abspath(path), '--help'], capture_output=True,
                text=True, check=True).stdout)
            for name, path in _PROGRAMS.items()}

    def test_the_pages_tell_true_defaults(self):
        compared = set()
        for page in sorted((_ROOT / 'docs').glob('*.md')):
            for program, flags, told in tables(page.read_text('utf-8')):
                self.assertEqual(len(flags), len(told), f'{page.name}: {flags}')
                for flag, text in zip(flags, told):
                    with self.subTest(page=page.name, flag=flag):
                        self.assertIn(flag, self.defaults[program])
                        real = self.defaults[program][flag]
                        self.assertTrue(agree(text, real),
                                        f'"{text}", but {flag} is {real}')
                        compared.add(flag)
        self.assertGreater(len(compared), 20, compared)

    def test_each_limit_of_users_is_in_the_table(self):
        text = (_ROOT / 'docs' / 'security.md').read_text('utf-8')
        told = {flag for _, flags, _ in tables(text) for flag in flags}
        limits = {flag for flag in self.defaults['comera-server']
                  if flag.startswith('--user_')}
        self.assertGreater(len(limits), 10)
        self.assertEqual(limits - told, set())

    def test_what_disagrees_is_found(self):
        text = ('  --a_flag TEXT               Takes a thing\n'
                '  --a_size INT:SIZE [b, kib(=1024b), ...]=2048\n'
                '                              Bytes, e.g. --x=3  and more\n'
                '  -n,--a_number INT=2000      Things\n')
        self.assertEqual(help_defaults(text), {
            '--a_flag': None, '--a_size': '2048', '--a_number': '2000'})
        self.assertTrue(agree('2,000 (burst 4,000)', '2000'))
        self.assertTrue(agree('2 KiB a file', '2048'))
        self.assertTrue(agree('`groups`', 'groups'))
        for told, real in (('2', '2048'), ('2 MiB', '2048'), ('none', '1'),
                           ('2,000', None), ('`groups`', 'group'),
                           ('many', '2000'), ('2,000', 'forever')):
            self.assertFalse(agree(told, real), told)


if __name__ == '__main__':
    unittest.main()
