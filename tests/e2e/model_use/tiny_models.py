"""Tiny models, trained by comera-trainer in seconds, and the programs."""

import json
import os
import pathlib
import random
import subprocess

COMERA = os.path.abspath('client/comera')
TRAINER = os.path.abspath('worker/trainer/comera-trainer')
LABELS = ['no', 'maybe', 'yes']
_WORDS = ('sun moon star tree leaf root bird fish stone river cloud rain snow '
          'wind fire night').split()
_RANKS = {'ranks': [4]}
_COMPRESSION = {name: _RANKS for name in
                ('embedding', 'attention', 'ffn_up', 'ffn_down', 'head')}


def _train(folder, name, spec, steps):
    """Trains; returns the folder of the model, the spec and the last event."""
    spec = dict(spec, objective={'early': {'steps': steps}})
    task = folder / f'{name}.task.json'
    task.write_text(json.dumps({
        'spec': spec, 'work_dir': str(folder / name), 'threads': 1}))
    done = subprocess.run([TRAINER, f'--task={task}'], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])['result']
    job = folder / f'{name}.json'
    job.write_text(json.dumps(spec))
    return folder / name / 'model', job, result


def _compression(method):
    if method == 'COMERA':
        return dict(_COMPRESSION, method=method)
    if method == 'DENSE':
        return {'method': method}
    return {'method': method, method.lower(): {'rank': 4}}


def _sentence(source):
    return ' '.join(source.choice(_WORDS) for _ in range(source.randint(2, 9)))


def classifier(folder, steps=12, classes=3, method='COMERA', cased=False,
               name='classifier'):
    """A classifier of pairs with BERT's tokenizer."""
    source = random.Random(7)
    for part, rows in (('train', 120), ('dev', 300)):
        with open(folder / f'{part}.tsv', 'w', encoding='utf-8') as file:
            file.write('id\tpremise\thypothesis\tgold\n')
            for i in range(rows):
                label = i % classes
                file.write(f'{i}\t{_sentence(source)}\t{_sentence(source)} '
                           f'{_WORDS[label]}\t{LABELS[label]}\n')
    pieces = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *_WORDS, '##s',
              *'abcdefghijklmnopqrstuvwxyz']
    (folder / 'vocab.txt').write_text('\n'.join(pieces) + '\n')
    return _train(folder, name, {
        'model': {'family': 'ENCODER_CLASSIFIER', 'layers': 2, 'hidden': 16,
                  'ffn': 32, 'heads': 2, 'classes': classes},
        'data': {'glue_tsv': {'train': str(folder / 'train.tsv'),
                              'validation': str(folder / 'dev.tsv'),
                              'sentence1_column': 1, 'sentence2_column': 2,
                              'labels': LABELS[:classes]},
                 'tokenizer': {'kind': 'WORDPIECE', 'lowercase': not cased,
                               'vocabulary_file': str(folder / 'vocab.txt')},
                 'max_length': 24},
        'compression': _compression(method),
        'training': {'batch_size': 8, 'validation_samples': -1},
    }, steps)


def masked_lm(folder, steps=12, tie_output=False, name='masked_lm'):
    """A masked LM of C code with RoBERTa's tokenizer."""
    (folder / 'corpus').mkdir(exist_ok=True)
    for f in range(12):
        (folder / 'corpus' / f'file{f}.h').write_text(''.join(
            f'int value_{(i * 7 + f) % 11} = function_{(i + f) % 5}'
            f'(argument, {i % 3});\n' for i in range(40)))
    model = {'family': 'MASKED_LM', 'layers': 2, 'hidden': 16, 'ffn': 32,
             'heads': 2}
    if tie_output:
        model['tie_output'] = True
    return _train(folder, name, {
        'model': model,
        'data': {'code_directory': {'roots': [str(folder / 'corpus')],
                                    'globs': ['*.h'],
                                    'validation_fraction': 0.2},
                 'tokenizer': {'kind': 'BYTE_BPE',
                               'train_vocabulary_size': 320},
                 'max_length': 32},
        'compression': dict(_COMPRESSION, **(
            {} if tie_output else {'output': _RANKS})),
        'training': {'batch_size': 8, 'validation_samples': -1},
    }, steps)


def causal_lm(folder, architecture, tokenizer, steps=60, method='COMERA',
              name='causal_lm'):
    """A language model of sentences about words."""
    (folder / 'sentences.txt').write_text(''.join(
        f'The {a} of the {b} is {i}.\n' for i, (a, b) in enumerate(
            (a, b) for a in _WORDS for b in _WORDS)))
    model = {'family': 'CAUSAL_LM', 'architecture': architecture, 'layers': 2,
             'hidden': 32, 'heads': 4, 'ffn': 64}
    compression = _compression(method)
    compression.pop('head', None)
    if architecture == 'LLAMA':
        model['kv_heads'] = 2
        if method == 'COMERA':
            compression['output'] = _RANKS
    vocabulary = ({'train_vocabulary_size': 320} if tokenizer == 'BYTE_BPE'
                  else {})
    return _train(folder, name, {
        'model': model,
        'data': {'text': {'train': [str(folder / 'sentences.txt')]},
                 'tokenizer': dict(vocabulary, kind=tokenizer),
                 'max_length': 32},
        'compression': compression,
        'training': {'batch_size': 8, 'validation_samples': -1},
    }, steps)


def clicks(folder, steps=12, name='clicks'):
    """A DLRM of Criteo's columns; also the file and its validation rows."""
    source = random.Random(11)
    lines = []
    for _ in range(700):
        numbers = [str(source.randint(-1, 60)) if source.random() < 0.8 else ''
                   for _ in range(13)]
        values = [f'{source.randint(0, 400 if c == 3 else 9):08x}'
                  if source.random() < 0.9 else '' for c in range(26)]
        click = int(values[0][-1:] in '0123' and source.random() < 0.8)
        lines.append('\t'.join([str(click), *numbers, *values]) + '\n')
    (folder / 'clicks.tsv').write_text(''.join(lines))
    # Seven parts; the second half of the last validates.
    (folder / 'clicks_dev.tsv').write_text(''.join(lines[650:]))
    return _train(folder, name, {
        'model': {'family': 'DLRM',
                  'dlrm': {'bottom_mlp': [16, 8], 'top_mlp': [16, 1],
                           'compressed_tables': 1}},
        'data': {'criteo_tsv': {'files': [str(folder / 'clicks.tsv')],
                                'max_table_rows': 100}},
        'compression': {'table': {'ranks': [4]}},
        'training': {'batch_size': 50, 'validation_samples': -1},
    }, steps)


def run(*arguments, code=0, data=None):
    """comera with these arguments; the completed process."""
    done = subprocess.run([COMERA, *map(str, arguments)], input=data,
                          capture_output=True, text=True, check=False,
                          timeout=100)
    assert done.returncode == code, (arguments, done.returncode, done.stdout,
                                     done.stderr)
    return done


def predictions(*arguments, **options):
    """What comera predict answers, as JSON."""
    done = run('predict', *arguments, '--trainer-binary', TRAINER, '-o', 'json',
               '--threads', 1, **options)
    return [json.loads(line) for line in done.stdout.splitlines()]


def evaluation(*arguments):
    """What comera evaluate tells, as JSON."""
    done = run('evaluate', *arguments, '--trainer-binary', TRAINER, '-o',
               'json', '--threads', 1)
    return json.loads(done.stdout)


def folder():
    """A folder of this test, with a private state folder."""
    made = pathlib.Path(os.environ.get('TEST_TMPDIR', '/tmp')) / 'model_use'
    made.mkdir(parents=True, exist_ok=True)
    os.environ['XDG_STATE_HOME'] = str(made / 'state')
    return made
