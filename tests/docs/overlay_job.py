#!/usr/bin/python3
"""Prints a whole job file: the part of one on standard input, laid over BASE.

  overlay_job.py BASE < PART
"""

import sys

import yaml

# What is given as a whole: parts of them exclude each other.
_WHOLE = ('data', 'late')


def overlay(base, part):
    for key, value in part.items():
        if (isinstance(value, dict) and isinstance(base.get(key), dict) and
                key not in _WHOLE):
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
