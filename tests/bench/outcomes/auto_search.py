#!/usr/bin/python3
"""Runs a search and then all of its candidates to their ends.

  auto_search.py COMERA FOLDER ACCURACY

FOLDER holds auto.yaml. Prints the size that each of both finds, and the time
that their jobs trained. The coordinator is $COMERA_SERVER.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys


def call(comera, *arguments, status=(0,)):
    """The standard output of a call of `comera` that ends with a status."""
    done = subprocess.run([comera, *arguments], stdout=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode not in status:
        sys.exit(f'comera {" ".join(arguments)}: status {done.returncode}')
    return done.stdout


def last_json(text):
    """The last of several JSON values."""
    decoder = json.JSONDecoder()
    value, at = None, 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
    return value


def seconds(job):
    """The time from a job's start to its end."""
    if 'start_time' not in job:
        return 0.0
    start, end = (datetime.datetime.fromisoformat(
        re.sub(r'(\.\d{1,6})\d*Z$|Z$', r'\1+00:00', job[key]))
                  for key in ('start_time', 'end_time'))
    return (end - start).total_seconds()


def stage_job(sweep, run):
    """The job of the early stage that a run shares; None without one."""
    stage = run.get('stage', 0)  # zeros are left out of the output
    return sweep['stages'][stage].get('job') if stage >= 0 else None


def whole_spec(comera, sweep, run):
    """The job of a candidate that shares no stage with others."""
    job = run.get('job') or stage_job(sweep, run)
    spec = json.loads(call(comera, 'get', job, '-o', 'json'))['spec']
    if not run.get('job'):
        ratio = re.search(r'shrunk_to=([0-9.]+)', run['label'])
        steps = spec['objective']['early']['steps']
        spec['objective']['late'] = {
            **sweep['spec']['job']['objective']['late'],
            'target_ratio': float(ratio.group(1)), 'max_steps': steps}
    spec.pop('start_from', None)
    spec['objective']['early'].pop('only', None)
    return spec


def main():
    comera, folder, accuracy = sys.argv[1:]
    folder, accuracy = pathlib.Path(folder), float(accuracy)
    name = call(comera, 'sweep', str(folder / 'auto.yaml')).strip()
    call(comera, 'sweep', 'watch', name, status=(0, 104))
    sweep = last_json(call(comera, 'sweep', 'get', name, '-o', 'json'))
    print(sweep['reason'])
    chosen = sweep['runs'][sweep['search']['chosen_run']]
    found = int(chosen['progress']['size_parameters'])
    trained = float(sweep['search']['spent'])
    print(f'search: {found} parameters ({sweep["outcome"]}, accuracy '
          f'{accuracy}), {trained:.0f} steps', flush=True)

    total, best, spent = 0.0, None, 0
    for run in sweep['runs']:
        # The search leaves out only candidates that are larger than what it
        # found. The sweep leaves them out too, which makes it cheaper.
        if not run.get('job') and not stage_job(sweep, run):
            print(f"{run['label']}: left out, as in the search")
            continue
        file = folder / 'candidate.json'
        file.write_text(json.dumps(whole_spec(comera, sweep, run)),
                        encoding='utf-8')
        job_name = call(comera, 'submit', str(file)).strip()
        call(comera, 'wait', job_name, status=(0, 100, 104))  # 100: it failed
        job = json.loads(call(comera, 'get', job_name, '-o', 'json'))
        total += seconds(job)
        spent += int(job['progress']['step'])
        size = int(job['progress']['size_parameters'])
        met = job.get('outcome') == 'TARGET_MET'
        print(f"{run['label']}: {job.get('outcome')} with {size} parameters",
              flush=True)
        if met and (best is None or size < best):
            best = size
    print(f'exhaustive: {best} parameters, {spent} steps in {total:.0f} s')


if __name__ == '__main__':
    main()
