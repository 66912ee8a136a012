"""Runs the python blocks of a page, in order, in one interpreter.

  python_session.py SCRIPT REQUESTS ANSWERS

SCRIPT has as many lines as the page, those of its python blocks filled. A
request is "FIRST LAST FOLDER", two lines of it and the shell's working folder,
with the shell's environment in the file ANSWERS.environment; the answer is the
exit status.
"""

import os
import sys
import traceback


def _run(script, lines, first, last, variables):
    source = '\n' * (first - 1) + '\n'.join(lines[first - 1:last])
    try:
        exec(compile(source, script, 'exec'), variables)
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        return 1


def main():
    script, requests, answers = sys.argv[1:]
    # So that tracebacks show the lines.
    with open(script, encoding='utf-8') as file:
        lines = file.read().split('\n')
    variables = {'__name__': '__main__'}
    while True:
        with open(requests, encoding='utf-8') as pipe:
            request = pipe.read().rstrip('\n')
        if not request:
            continue
        first, last, folder = request.split(' ', 2)
        with open(answers + '.environment', 'rb') as file:
            shell = [e.partition(b'=') for e in file.read().split(b'\0') if e]
        os.environ.clear()
        for name, _, value in shell:
            os.environb[name] = value
        os.chdir(folder)
        # The path that a script in that folder would have.
        path = os.environ.get('PYTHONPATH', '').split(':')
        for entry in reversed([''] + [os.path.abspath(p) for p in path if p]):
            if entry not in sys.path:
                sys.path.insert(0, entry)
        status = _run(script, lines, int(first), int(last), variables)
        sys.stdout.flush()
        sys.stderr.flush()
        with open(answers, 'w', encoding='ascii') as pipe:
            pipe.write(f'{status}\n')


if __name__ == '__main__':
    main()
