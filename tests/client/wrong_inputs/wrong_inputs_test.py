#!/usr/bin/python3
"""Runs the table of wrong inputs: every mistake is told in plain words.

  wrong_inputs_test.py TABLE COMERA SERVER WORKER TRAINER [--show]

--show prints what the programs write, for writing the table.
"""

import os
import shlex
import subprocess
import sys
import tempfile

import yaml

PROGRAMS = ('comera', 'comera-server', 'comera-worker', 'comera-trainer')
SECONDS = 60


def contents(row, good):
    """The files of a row, by name."""
    files = {name: good if text == 'GOOD' else text
             for name, text in row.get('files', {}).items()}
    if 'change' in row:
        lines = good.splitlines()
        for beginning, line in row['change'].items():
            lines = [line if old.startswith(f'{beginning}:') else old
                     for old in lines]
        files['job.yaml'] = '\n'.join(lines) + '\n'
    return files


def run(row, good, programs):
    """The exit code and what is written on standard output and error."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in contents(row, good).items():
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
        words = shlex.split(row['run'])
        words[0] = programs[words[0]]
        environment = {'PATH': os.environ['PATH'], 'HOME': folder,
                       'COMERA_SERVER': '127.0.0.1:1'}
        done = subprocess.run(words, cwd=folder, env=environment, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        hide = lambda text: text.replace(folder, 'FOLDER')
        return done.returncode, hide(done.stdout), hide(done.stderr)


def faults(row, result):
    code, out, err = result
    if code != row['exit']:
        yield f'exit {code}, not {row["exit"]}'
    if out and not row.get('prints'):
        yield f'standard output has {out!r}'
    for words in row['says']:
        if words not in err:
            yield f'does not say {words!r}'
    if len(err) > 6000:
        yield f'{len(err)} bytes are too many to read'


def main():
    arguments = [a for a in sys.argv[1:] if a != '--show']
    with open(arguments[0], encoding='utf-8') as file:
        table = yaml.safe_load(file)
    programs = {name: os.path.abspath(path)
                for name, path in zip(PROGRAMS, arguments[1:])}
    bad = 0
    for row in table['rows']:
        result = run(row, table['good'], programs)
        if '--show' in sys.argv:
            print(f'{row["run"]}\n  {result[0]} {result[1]!r}\n  {result[2]}')
            continue
        for fault in faults(row, result):
            bad += 1
            print(f'{row["run"]}: {fault}\n{result[2]}')
    rows = len(table['rows'])
    print(f'{rows} wrong inputs, {bad} faults')
    if rows < 90 or bad:
        sys.exit(1)


if __name__ == '__main__':
    main()
