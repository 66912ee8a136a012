#!/usr/bin/python3
"""comera export --format onnx: ONNX's checker accepts the graphs, and ONNX
Runtime computes from them what comera predict computes."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import tiny_models as tiny  # pylint: disable=wrong-import-position

FOLDER = tiny.folder()
INSTALLED = pathlib.Path(
    os.environ['TEST_SRCDIR'], 'onnxruntime_npm', 'installed').resolve()
RUNNER = os.path.abspath('tests/e2e/model_use/onnx/run.mjs')


def absent():
    """Why ONNX Runtime is not here; "" where it is."""
    text = INSTALLED.read_text().strip()
    return text if text.startswith('absent') else ''


def export(model, name):
    to = FOLDER / name
    tiny.run('export', model, '--format', 'onnx', '--to', to,
             '--trainer-binary', tiny.TRAINER)
    return to


def check(path):
    """What ONNX's own checker says, where Debian's python3-onnx is there."""
    try:
        import onnx  # pylint: disable=import-outside-toplevel
    except ImportError:
        print('SKIPPED: python3-onnx is not installed, the graph is unchecked')
        return
    onnx.checker.check_model(onnx.load(str(path)), full_check=True)


def run(path, feeds):
    done = subprocess.run(
        ['node', RUNNER, INSTALLED.parent / 'package.json', path],
        input='\n'.join(map(json.dumps, feeds)) + '\n', capture_output=True,
        text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def padded(rows, fill, length):
    return [row + [fill] * (length - len(row)) for row in rows]


@unittest.skipIf(absent(), absent())
class OnnxTest(unittest.TestCase):

    def classify(self, method, name):
        model, _, _ = tiny.classifier(FOLDER, method=method, name=name)
        to = export(model, name + '_onnx')
        check(to / 'model.onnx')
        vocabulary = {token: i for i, token in enumerate(
            (to / 'vocab.txt').read_text().splitlines())}
        pairs = [line.split('\t')[1:3] for line in
                 (FOLDER / 'dev.tsv').read_text().splitlines()[1:25]]
        answers = tiny.predictions(model, '--logits', data=''.join(
            json.dumps({'text': a, 'text_pair': b}) + '\n' for a, b in pairs))
        ids, segments = [], []
        for first, second in pairs:
            a, b = ([vocabulary[word] for word in text.split()]
                    for text in (first, second))
            ids.append([vocabulary['[CLS]'], *a, vocabulary['[SEP]'], *b,
                        vocabulary['[SEP]']])
            segments.append([0] * (len(a) + 2) + [1] * (len(b) + 1))
        longest = max(map(len, ids))
        feed = {'input_ids': padded(ids, vocabulary['[PAD]'], longest),
                'attention_mask': padded([[1] * len(row) for row in ids], 0,
                                         longest),
                'token_type_ids': padded(segments, 0, longest)}
        result, = run(to / 'model.onnx', [feed])
        self.assertEqual(result['dims'], [24, 3])
        for i, answer in enumerate(answers):
            for ours, theirs in zip(answer['logits'],
                                    result['data'][3 * i:3 * i + 3]):
                self.assertAlmostEqual(ours, theirs, delta=2e-5)
        return model, to

    def test_a_classifier_stays_small(self):
        model, to = self.classify('COMERA', 'bert')
        sizes = [(folder / name).stat().st_size for folder, name in
                 ((model, 'model.safetensors'), (to, 'model.onnx'))]
        # The cores, and the graph, which is most of so tiny a model.
        self.assertLess(sizes[1], sizes[0] + 80_000)

    def test_other_methods(self):
        for method in ('DENSE', 'LORA', 'COLA'):
            with self.subTest(method):
                self.classify(method, 'bert_' + method.lower())

    def fill(self, tie_output, name):
        model, _, _ = tiny.masked_lm(FOLDER, tie_output=tie_output, name=name)
        to = export(model, name + '_onnx')
        check(to / 'model.onnx')
        vocabulary = json.loads((to / 'vocab.json').read_text())
        answer, = tiny.predictions(model, '--logits',
                                   data='{"text": "a<mask>7"}')
        ids = [vocabulary[piece] for piece in ('<s>', 'a', '<mask>', '7',
                                               '</s>')]
        result, = run(to / 'model.onnx', [
            {'input_ids': [ids], 'attention_mask': [[1] * 5]}])
        width = len(vocabulary)
        self.assertEqual(result['dims'], [1, 5, width])
        mask, = answer['masks']
        theirs = result['data'][2 * width:3 * width]
        for a, b in zip(mask['logits'], theirs):
            self.assertAlmostEqual(a, b, delta=2e-5)

    def test_masked_lm(self):
        self.fill(False, 'roberta')

    def test_masked_lm_with_tied_output(self):
        self.fill(True, 'roberta_tied')


if __name__ == '__main__':
    unittest.main(verbosity=2)
