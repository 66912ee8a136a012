#!/usr/bin/python3
"""Prints a whole job file: the part of one on standard input, laid over BASE.

  overlay_job.py BASE < PART
"""

import sys

import yaml

# The data formats, of which a job has one.
_FORMATS = ('glue_tsv', 'code_directory', 'jsonl', 'criteo_tsv',
            'synthetic_clicks', 'labelled_text')


def overlay(base, part):
    if any(key in _FORMATS and key not in base for key in part):
        for key in _FORMATS:
            base.pop(key, None)
    for key, value in part.items():
        # Ways to name a target exclude each other.
        if (isinstance(value, dict) and isinstance(base.get(key), dict) and
                key != 'late'):
            overlay(base[key], value)
        else:
            base[key] = value


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        job = yaml.safe_load(file)
    overlay(job, yaml.safe_load(sys.stdin))
    yaml.safe_dump(job, sys.stdout)


if __name__ == '__main__':
    main()
