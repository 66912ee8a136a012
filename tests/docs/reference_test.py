#!/usr/bin/python3
"""docs/reference is what generate.py writes now, and tells true defaults."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

_ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent.parent
_REFERENCE = _ROOT / 'docs' / 'reference'
sys.path.insert(0, str(_REFERENCE))
import job_file  # pylint: disable=wrong-import-position
import proto_files  # pylint: disable=wrong-import-position

# One valid job that leaves as much as possible to the defaults, and others
# that differ from it in what they name here.
_JOB = {
    'model': {'family': 'masked_lm', 'layers': 1, 'hidden': 64, 'heads': 4},
    'data': {'code_directory': {'roots': ['/usr/include'], 'globs': ['*.h']},
             'tokenizer': {'kind': 'byte_bpe', 'train_vocabulary_size': 512},
             'max_length': 32},
    'objective': {'early': {'steps': 10},
                  'late': {'target_loss': 5, 'target_ratio': 0.5,
                           'max_steps': 10}},
    'training': {'batch_size': 32},
}
_OTHERS = (
    {'data': {'jsonl': {'train': '/a', 'validation': '/b'},
              'tokenizer': {'kind': 'wordpiece', 'vocabulary_file': '/v'},
              'max_length': 32}},
    {'model': {'family': 'encoder_classifier', 'layers': 1, 'hidden': 64,
               'heads': 4, 'classes': 2},
     'data': {'glue_tsv': {'train': '/a', 'validation': '/b',
                           'labels': ['x', 'y']},
              'tokenizer': {'kind': 'wordpiece', 'vocabulary_file': '/v'},
              'max_length': 32}},
    {'model': {'family': 'encoder_classifier', 'layers': 1, 'hidden': 64,
               'heads': 4},
     'data': {'labelled_text': {'train': '/a.csv'},
              'tokenizer': {'kind': 'wordpiece', 'vocabulary_file': '/v'},
              'max_length': 32}},
    {'model': {'family': 'causal_lm', 'layers': 1, 'hidden': 64, 'heads': 4},
     'data': {'text': {'train': ['/a/*.txt']},
              'tokenizer': {'kind': 'characters'}, 'max_length': 32}},
    {'model': {'family': 'dlrm'},
     'data': {'criteo_tsv': {'files': ['/a']}}},
    {'model': {'family': 'dlrm'},
     'data': {'synthetic_clicks': {'train_rows': 9, 'validation_rows': 9}}},
) + tuple({'compression': {'method': method},
           'objective': {'early': {'steps': 10}}}
          for method in ('galore', 'lora', 'lte', 'cola'))


def validate(job):
    """Exit status, the job with its defaults, messages."""
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        json.dump(job, file)
        file.flush()
        done = subprocess.run(
            [_comera(), 'validate', file.name, '--print', '-o', 'json'],
            capture_output=True, text=True, check=False)
    return (done.returncode, json.loads(done.stdout) if done.stdout else {},
            done.stderr)


def _comera():
    return os.environ.get('COMERA', os.path.abspath('client/comera'))


def number(text):
    scale = {'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}
    parts = text.replace(',', '').split()
    try:
        return float(parts[0]) * (scale[parts[1]] if len(parts) > 1 else 1)
    except (ValueError, KeyError, IndexError):
        return None


class ReferenceTest(unittest.TestCase):

    def setUp(self):
        self.api = proto_files.Api(_ROOT)

    def test_the_pages_are_fresh(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([_REFERENCE / 'generate.py', '--output', folder],
                           check=True)
            for name in sorted(os.listdir(folder)):
                self.assertEqual(
                    pathlib.Path(folder, name).read_text(encoding='utf-8'),
                    (_REFERENCE / name).read_text(encoding='utf-8'),
                    f'{name} is stale: run docs/reference/generate.py')

    def test_defaults_are_the_programs(self):
        told = {}  # by message and field
        for name, message in self.api.messages.items():
            told[name] = job_file.defaults(message, self.api)
        compared = set()
        for other in ({},) + _OTHERS:
            given = {**_JOB, **other}
            if given['model']['family'] == 'dlrm':
                given['compression'] = {}
            code, job, messages = validate(given)
            self.assertEqual(code, 0, messages)
            self._compare('comera.v1.JobSpec', given, job, told, compared)
        self.assertGreater(len(compared), 45, compared)

    def _compare(self, name, given, filled, told, compared):
        for field in self.api.messages[name].parts:
            if field.name not in filled:
                continue
            value, default = filled[field.name], told[name].get(field.name)
            if field.type_name in self.api.messages:
                if not field.repeated:
                    self._compare(field.type_name, given.get(field.name, {}),
                                  value, told, compared)
                continue
            if field.name in given or default in (None, 'required'):
                continue
            with self.subTest(message=name, field=field.name):
                if isinstance(value, list):
                    words = [str(v) for v in value]
                    if re.match(r'\d', words[0]) and number(default) is None:
                        continue  # told in words
                    self.assertEqual(', '.join(words), default)
                elif number(default) is not None:
                    self.assertTrue(math.isclose(float(value),
                                                 number(default)),
                                    f'{value}, not {default}')
                elif default.startswith(('`', '"')):
                    self.assertEqual(str(value).lower(), default.strip('`"'))
                elif default in ('true', 'false'):
                    self.assertEqual(value, default == 'true')
                else:
                    continue  # told in words
                compared.add(f'{name}.{field.name}')

    def test_what_is_required_is(self):
        for path in ('model.family', 'model.layers', 'model.hidden',
                     'model.heads', 'data.max_length', 'data.tokenizer',
                     'data.tokenizer.kind',
                     'training.batch_size'):
            job = json.loads(json.dumps(_JOB))
            scope = job
            *folders, last = path.split('.')
            for folder in folders:
                scope = scope[folder]
            del scope[last]
            code, _, messages = validate(job)
            self.assertEqual(code, 1, path)
            self.assertIn(path, messages)
        text = (_REFERENCE / 'job_file.md').read_text(encoding='utf-8')
        self.assertEqual(text.count('| required |'), 8)


if __name__ == '__main__':
    unittest.main()
