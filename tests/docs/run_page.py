#!/usr/bin/python3
"""Runs the sh and python blocks of one page of the documentation.

  run_page.py PAGE [--programs DIR] [--keep]

PAGE is relative to the top of the tree, e.g. docs/security.md. The blocks run
in order, in one shell, in a folder that looks like a clone, with HOME and the
network private and the programs on PATH: those of --programs, or those that
were built. tests/docs/README.md describes the directives.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import isolation
import page as page_module

_TESTS = pathlib.Path(os.path.realpath(__file__)).parent
_PROGRAMS = ('client/comera', 'server/comera-server', 'worker/comera-worker',
             'worker/trainer/comera-trainer')
# What a clone has not.
_NOT_CLONED = ('shared', 'node_modules')


def check_syntax(name, items):
    """Each block must be whole in itself, or it would swallow the next one."""
    for block in page_module.blocks(items):
        if block.language != 'sh' or block.skip:
            continue
        text = '\n' * block.line + '\n'.join(block.text) + '\n'
        done = subprocess.run(['/bin/bash', '-n'], input=text, text=True,
                              capture_output=True, check=False)
        if done.stderr:
            raise page_module.PageError(f'{name}:{block.line}: ' +
                                        done.stderr.strip())


def session_script(name, items):
    """A bash script with as many lines as the page, and one for python."""
    length = max([1] + [getattr(i, 'end', i.line) for i in items])
    shell, python = [''] * (length + 1), [''] * (length + 1)
    for item in items:
        if isinstance(item, page_module.Directive):
            shell[item.line] = {
                'setup': 'source "$DOCS_TESTS"/setup/%s.sh' %
                         shlex.quote(item.argument),
                'run': item.argument,
                'wait': 'docs_wait %s' % shlex.quote(item.argument),
                'expect': 'docs_expect %s' % shlex.quote(item.argument),
            }[item.kind]
            continue
        if not item.runs:
            continue
        if item.skip:
            shell[item.line] = 'docs_skip %d %s' % (item.line,
                                                    shlex.quote(item.skip))
            continue
        if item.job:
            shell[item.line] = 'docs_job %d %s <<\'DOCS_JOB\'' % (item.line,
                                                                item.job)
            shell[item.line + 1:item.end] = item.text
            shell[item.end] = 'DOCS_JOB'
            continue
        begin, end = 'docs_block %d' % item.line, ''
        if item.needs:
            begin = 'if docs_needs %d %s; then %s' % (
                item.line, shlex.quote(item.needs), begin)
            end = 'fi'
        if item.language == 'python':
            python[item.line + 1:item.end] = item.text
            end = 'docs_python %d %d %d; %s' % (item.line, item.line + 1,
                                                item.end - 1, end)
        else:
            shell[item.line + 1:item.end] = item.text
        shell[item.line], shell[item.end] = begin, end
    # Lines count from 1.
    shell.append(': >"$DOCS_WORK/finished"')
    return '\n'.join(shell[1:]) + '\n', '\n'.join(python[1:]) + '\n'


def make_clone(root, clone, programs):
    """A copy of the tree, and bazel-bin with the programs."""
    shutil.copytree(root, clone, ignore=lambda _, names: [
        name for name in names
        if name.startswith(('.', 'bazel-')) or name in _NOT_CLONED])
    binaries = clone / 'bazel-bin'
    for program in _PROGRAMS:
        target = binaries / program
        target.parent.mkdir(parents=True, exist_ok=True)
        # No link: a program finds others beside where it really is.
        os.link(programs / os.path.basename(program), target)


def copy_programs(programs, source):
    """Into one folder: they look for each other beside themselves."""
    programs.mkdir()
    # A build within a test would take minutes and all memory.
    bazel = programs / 'bazel'
    bazel.write_text('#!/bin/sh\necho "a page may not run bazel in its test: '
                     'skip it, and say what runs it" >&2\nexit 1\n')
    bazel.chmod(0o755)
    for program in _PROGRAMS:
        found = [p for p in (source / program,
                             source / os.path.basename(program))
                 if p.exists()]
        if not found:
            sys.exit(f'{source} has no {program}')
        shutil.copy(found[0], programs)


def run(name, root, source, work):
    """The exit status; what was printed goes to standard output."""
    items = page_module.read_page(root / name, name)
    if not any(i.runs if isinstance(i, page_module.Block) else
               i.kind == 'run' for i in items):
        print(f'{name} has no commands')
        return 0
    check_syntax(name, items)
    if all(i.skip for i in page_module.blocks(items) if i.runs) and all(
            isinstance(i, page_module.Block) for i in items):
        for block in page_module.blocks(items):
            if block.runs:
                print(f'{name}:{block.line}: SKIPPED: {block.skip}')
        return 0
    copy_programs(work / 'bin', source)
    make_clone(root, work / 'comera', work / 'bin')
    (work / 'home').mkdir()
    (work / 'tmp').mkdir()
    shell, python = session_script(name, items)
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(shell, encoding='utf-8')
    (work / (name + '.py')).write_text(python, encoding='utf-8')
    log = work / 'log'
    environment = {
        'PATH': '%s:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin' % (
            work / 'bin'),
        'HOME': str(work / 'home'),
        'TMPDIR': str(work / 'tmp'),
        'LANG': 'C.UTF-8',
        'TERM': 'dumb',
        'USER': os.environ.get('USER', 'root'),
        'COMERA_SHARED_DIR': os.environ.get('COMERA_SHARED_DIR', ''),
        'OMP_WAIT_POLICY': 'passive',
        'DOCS_PAGE': name,
        'DOCS_WORK': str(work),
        'DOCS_LOG': str(log),
        'DOCS_TESTS': str(_TESTS),
    }
    start = time.monotonic()
    with open(log, 'ab') as output:
        status = subprocess.call(
            ['/bin/bash', '--noprofile', '--norc', '-c',
             'source "$DOCS_TESTS/session.sh"; source "$DOCS_WORK/$DOCS_PAGE"'],
            cwd=work / 'comera', env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output)
    isolation.end_descendants()
    sys.stdout.write(log.read_text(encoding='utf-8', errors='replace'))
    sys.stdout.write('\n')
    seconds = time.monotonic() - start
    skips = work / 'skips'
    if skips.exists():
        print(skips.read_text(encoding='utf-8'), end='')
    if status == 0 and not (work / 'finished').exists():
        print(f'{name}: a block ended the shell')
        status = 1
    if status != 0:
        failures = work / 'failures'
        if failures.exists():
            # The first one is the cause.
            print('FAILED', failures.read_text(encoding='utf-8').split('\n')[0])
        else:
            print(f'FAILED {name}: the shell ended with {status}')
        for daemon in sorted((work / 'home').glob('*.log')):
            text = daemon.read_text(encoding='utf-8', errors='replace')
            print(f'--- the end of {daemon.name}\n{text[-4000:]}')
        return 1
    print(f'{name}: all commands work ({seconds:.1f} s)')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('page')
    parser.add_argument('--root', type=pathlib.Path, default=None,
                        help='top of the tree')
    parser.add_argument('--programs', type=pathlib.Path,
                        default=pathlib.Path.cwd(),
                        help='folder with the programs')
    parser.add_argument('--keep', action='store_true',
                        help='keep the folder that the page ran in')
    options = parser.parse_args()
    # In a test, files are links into the tree.
    root = options.root or _TESTS.parent.parent
    source = options.programs.resolve()
    folder = os.environ.get('TEST_TMPDIR')
    # Sockets have short names.
    work = pathlib.Path(tempfile.mkdtemp(prefix='docs.', dir=folder if folder
                                         and len(folder) < 60 else None))

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    isolation.adopt_orphans()
    if not isolation.enter_private_network():
        port = isolation.reserve_ports()
        if port is not None:
            print(f'{options.page}: SKIPPED: no network namespaces here, and '
                  f'port {port} is in use')
            return 0
    try:
        return run(options.page, root.resolve(), source, work)
    except page_module.PageError as error:
        print(f'FAILED {error}')
        return 1
    except KeyboardInterrupt:
        log = work / 'log'
        if log.exists():
            print(log.read_text(encoding='utf-8', errors='replace'))
        print(f'FAILED {options.page}: ended from outside')
        return 1
    finally:
        isolation.end_descendants()
        remove = work / 'remove'
        for folder in remove.read_text().split() if remove.exists() else ():
            shutil.rmtree(folder, ignore_errors=True)
        if options.keep:
            print(f'kept: {work}')
        else:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
