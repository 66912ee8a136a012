#!/usr/bin/python3
"""The tokenizers library gives texts the ids of the exported model's tokenizer."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import strange_texts  # pylint: disable=wrong-import-position

FOLDER = pathlib.Path(os.environ.get('TEST_TMPDIR', '/tmp')) / 'tokenizers'
INSTALLED = pathlib.Path(
    os.environ['TEST_SRCDIR'], 'tokenizers_npm', 'installed').resolve()
RUNNER = os.path.abspath('tests/e2e/model_use/tokenizers/encode.mjs')
EXPORT = os.path.abspath('tests/worker/trainer/export/export_tokenizer')
SHARED = pathlib.Path(os.environ.get('COMERA_SHARED_DIR', 'shared'))

def absent():
    """Why the library is not here; "" where it is."""
    text = INSTALLED.read_text().strip()
    return text if text.startswith('absent') else ''


def no_data():
    """Why there is nothing to read; "" where there is."""
    return '' if (SHARED / 'data').is_dir() else 'COMERA_SHARED_DIR has no data'


def export(source, name, kind, texts):
    """The exported folder and the ids of `texts`."""
    to = FOLDER / name
    done = subprocess.run(
        [EXPORT, source, to, kind], capture_output=True, text=True, check=False,
        input=''.join(text.encode().hex() + '\n' for text in texts))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split('\n')[:-1]
    return to, [list(map(int, line.split())) for line in lines]


def library(folder, rows):
    done = subprocess.run(
        ['node', RUNNER, INSTALLED.parent / 'package.json',
         folder / 'tokenizer.json'],
        input=''.join(json.dumps(row) + '\n' for row in rows),
        capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split('\n')[:-1]]


@unittest.skipIf(absent(), absent())
class TokenizersTest(unittest.TestCase):

    def check(self, source, name, kind):
        texts = strange_texts.texts()
        to, ours = export(source, name, kind, texts)
        rows = [{'text': text, 'special': False} for text in texts]
        theirs = library(to, rows)
        self.assertEqual(len(theirs), len(ours))
        for text, ids, answer in zip(texts, ours, theirs):
            self.assertEqual(ids, answer['ids'], text)
        self.assertGreater(sum(map(len, ours)), 5000)
        return to, dict(zip(texts, theirs))

    def around(self, folder, *texts):
        """Tokens that a text, or a pair, is read as."""
        row = {'text': texts[0], 'pair': (texts + (None,))[1], 'special': True}
        answer, = library(folder, [row])
        file = json.loads((folder / 'tokenizer.json').read_text())
        names = {i: token for token, i in file['model']['vocab'].items()}
        return [names[i] for i in answer['ids']]

    @unittest.skipIf(no_data(), no_data())
    def test_byte_pairs(self):
        source = SHARED / 'data/vocab/roberta'
        to, answers = self.check(source, 'byte_pairs', 'encoder')
        for text, answer in answers.items():
            self.assertEqual(answer['text'], text)
        self.assertEqual(self.around(to, 'a', 'b'),
                         ['<s>', 'a', '</s>', '</s>', 'b', '</s>'])
        self.assertEqual(self.around(to, 'a <mask>'),
                         ['<s>', 'a', '<mask>', '</s>'])
        to, _ = export(source, 'byte_pairs_causal', 'causal', [])
        self.assertEqual(self.around(to, 'a <mask>'), ['a', 'Ġ', '<mask>'])

    @unittest.skipIf(no_data(), no_data())
    def test_words(self):
        source = SHARED / 'data/vocab/bert-uncased'
        to, _ = self.check(source, 'words', 'encoder')
        self.assertEqual(self.around(to, 'A [MASK]', 'b'),
                         ['[CLS]', 'a', '[MASK]', '[SEP]', 'b', '[SEP]'])
        cased = FOLDER / 'cased'
        cased.mkdir(parents=True, exist_ok=True)
        (cased / 'vocab.txt').write_bytes((source / 'vocab.txt').read_bytes())
        (cased / 'tokenizer_config.json').write_text('{"do_lower_case": false}')
        to, _ = self.check(cased, 'cased_words', 'causal')
        self.assertEqual(self.around(to, 'A b'), ['[UNK]', 'b'])

    def test_characters(self):
        source = FOLDER / 'characters_source'
        source.mkdir(parents=True, exist_ok=True)
        letters = sorted(set("\n\t abcXYZ019'.,-é日😀"))
        (source / 'characters.json').write_text(
            json.dumps(['<unk>', '</s>', *letters]))
        to, answers = self.check(source, 'characters', 'causal')
        text = "abc 'XYZ' 😀"
        self.assertEqual(self.around(to, text), list(text))
        self.assertNotIn(text, answers)
        answer, = library(to, [{'text': text, 'special': True}])
        self.assertEqual(answer['text'], text)


if __name__ == '__main__':
    unittest.main(verbosity=2)
