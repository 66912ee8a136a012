#!/usr/bin/python3
"""comera export --format gguf: llama.cpp computes from the files what comera
predict computes, and cuts texts into the same tokens."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import strange_texts  # pylint: disable=wrong-import-position
import tiny_models as tiny  # pylint: disable=wrong-import-position

FOLDER = tiny.folder()
INSTALLED = pathlib.Path(
    os.environ['TEST_SRCDIR'], 'llama_cpp_npm', 'installed').resolve()
RUNNER = os.path.abspath('tests/e2e/model_use/llama_cpp/evaluate.mjs')
TOKENIZE = os.path.abspath('tests/worker/trainer/export/export_tokenizer')
SHARED = pathlib.Path(os.environ.get('COMERA_SHARED_DIR', 'shared'))
PROMPT = 'The sun of'
# ggml looks GPT-2's GELU up in a table of float16 numbers.
TOLERANCE = {'LLAMA': 2e-5, 'GPT2': 3e-3}


def absent():
    """Why llama.cpp is not here; "" where it is."""
    text = INSTALLED.read_text().strip()
    return text if text.startswith('absent') else ''


def no_data():
    """Why there is nothing to read; "" where there is."""
    return '' if (SHARED / 'data').is_dir() else 'COMERA_SHARED_DIR has no data'


def export(model, precision):
    to = FOLDER / f'{model.parent.name}_{precision}'
    tiny.run('export', model, '--format', 'gguf', '--precision', precision,
             '--to', to, '--trainer-binary', tiny.TRAINER)
    return to / 'model.gguf'


def llama(path, questions, *options):
    done = subprocess.run(
        ['node', RUNNER, INSTALLED.parent / 'package.json', path, *options],
        input=''.join(json.dumps(q) + '\n' for q in questions),
        capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split('\n')[:-1]]


def logits(model, texts):
    """What comera predict has for the tokens behind the texts."""
    answers = tiny.predictions(model, '--logits', data=''.join(
        json.dumps({'text': text}) + '\n' for text in texts))
    return [answer['masks'][-1]['logits'] for answer in answers]


@unittest.skipIf(absent(), absent())
class ModelTest(unittest.TestCase):

    def check(self, architecture, tokenizer):
        name = f'{architecture}_{tokenizer}'.lower()
        model, _, _ = tiny.causal_lm(FOLDER, architecture, tokenizer, name=name)
        ours, = logits(model, [PROMPT])
        path = export(model, 'f32')
        ids, = llama(path, [{'text': PROMPT}])
        self.assertEqual(ids['text'], PROMPT)
        theirs, = llama(path, [{'ids': ids['ids']}])
        for a, b in zip(ours, theirs['logits'][-1]):
            self.assertAlmostEqual(a, b, delta=TOLERANCE[architecture])
        sizes = [path.stat().st_size]
        for precision, delta in (('f16', 0.05), ('q8_0', 0.3)):
            smaller = export(model, precision)
            sizes.append(smaller.stat().st_size)
            rough, = llama(smaller, [{'ids': ids['ids']}])
            for a, b in zip(ours, rough['logits'][-1]):
                self.assertAlmostEqual(a, b, delta=delta)
        self.assertGreater(sizes[0], sizes[1])
        self.assertGreater(sizes[1], sizes[2])
        return model, path

    def test_llama_of_characters_goes_on_with_the_same_text(self):
        model, path = self.check('LLAMA', 'CHARACTERS')
        names = json.loads((model / 'characters.json').read_text())
        prompt = [names.index(c) for c in PROMPT]
        found, = llama(path, [{'ids': prompt, 'more': 16}])
        text = ''.join(names[i] for i in found['ids'])
        prefixes = [PROMPT + text[:n] for n in range(len(text))]
        ours = [row.index(max(row)) for row in logits(model, prefixes)]
        self.assertEqual(found['ids'], ours)

    def test_llama_of_byte_pairs(self):
        self.check('LLAMA', 'BYTE_BPE')

    def test_gpt2_of_characters(self):
        self.check('GPT2', 'CHARACTERS')

    def test_gpt2_of_byte_pairs(self):
        self.check('GPT2', 'BYTE_BPE')

    def test_only_causal_models(self):
        model, _, _ = tiny.classifier(FOLDER)
        done = tiny.run('export', model, '--format', 'gguf', '--to',
                        FOLDER / 'refused', '--trainer-binary', tiny.TRAINER,
                        code=1)
        self.assertIn('causal', done.stderr)
        self.assertFalse((FOLDER / 'refused').exists())
        done = tiny.run('export', model, '--format', 'hf', '--precision', 'f16',
                        '--to', FOLDER / 'refused', code=2)
        self.assertIn('--precision', done.stderr)


@unittest.skipIf(absent() or no_data(), absent() or no_data())
class VocabularyTest(unittest.TestCase):

    def check(self, source, name):
        texts = strange_texts.texts()
        to = FOLDER / name
        done = subprocess.run(
            [TOKENIZE, source, to, 'gguf'], capture_output=True, text=True,
            check=False,
            input=''.join(text.encode().hex() + '\n' for text in texts))
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = llama(to / 'model.gguf', [{'text': text} for text in texts],
                        'vocabulary')
        for text, line, answer in zip(texts, done.stdout.split('\n'), answers):
            self.assertEqual(list(map(int, line.split())), answer['ids'], text)

    def test_byte_pairs(self):
        self.check(SHARED / 'data/vocab/roberta', 'byte_pairs')

    def test_published_tokenizers(self):
        golden = SHARED / 'golden/causal_lm/tokenizers'
        for name, file in (('bytelevel_small.tokenizer.json', 'tokenizer.json'),
                           ('llama_spm_small.model', 'tokenizer.model'),
                           ('mistral_v1.model', 'tokenizer.model')):
            source = FOLDER / f'{name}_source'
            source.mkdir(exist_ok=True)
            (source / file).write_bytes((golden / name).read_bytes())
            with self.subTest(name):
                self.check(source, f'{name}_gguf')


if __name__ == '__main__':
    unittest.main(verbosity=2)
