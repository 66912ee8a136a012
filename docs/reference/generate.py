#!/usr/bin/python3
"""Writes job_file.md and api.md from the protos.

  generate.py [--root DIR] [--output DIR]

Needs protoc and Debian's python3-protobuf.
"""

import argparse
import pathlib
import os

import api
import job_file
import proto_files


def main():
    here = pathlib.Path(os.path.realpath(__file__)).parent
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--root', type=pathlib.Path, default=here.parent.parent,
                        help='top of the tree')
    parser.add_argument('--output', type=pathlib.Path, default=here)
    options = parser.parse_args()
    described = proto_files.Api(options.root)
    for name, text in (('job_file.md', job_file.generate(described)),
                       ('api.md', api.generate(described, options.root))):
        (options.output / name).write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
