#!/usr/bin/python3
"""comera export --format onnx: ONNX's checker accepts the graphs, and ONNX
Runtime computes from them what comera predict computes, decoders step by step
too."""

import atexit
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import reference_models  # pylint: disable=wrong-import-position
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


class Runtime:
    """ONNX Runtime, which takes a second to start: one for all tests."""

    process = None

    @classmethod
    def run(cls, path, feeds):
        if cls.process is None:
            cls.process = subprocess.Popen(  # pylint: disable=consider-using-with
                ['node', RUNNER, INSTALLED.parent / 'package.json'],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            atexit.register(cls.stop)
        answers = []
        for feed in feeds:
            question = {'model': str(path), 'inputs': feed}
            cls.process.stdin.write(json.dumps(question) + '\n')
            cls.process.stdin.flush()
            line = cls.process.stdout.readline()
            assert line, f'{path}: ONNX Runtime ended'
            answers.append(json.loads(line))
        return answers

    @classmethod
    def stop(cls):
        cls.process.stdin.close()
        cls.process.wait()


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
        result, = Runtime.run(to / 'model.onnx', [feed])
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
        result, = Runtime.run(to / 'model.onnx', [
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


class Session:
    """A decoder's graph, and the keys and values of one batch's earlier tokens."""

    def __init__(self, path, batch=1):
        self.path = path
        config = json.loads((path.parent / 'source.json').read_text())['model']
        self.names = [f'{layer}.{part}' for layer in range(config['layers'])
                      for part in ('key', 'value')]
        dims = [batch, config['kv_heads'], 0,
                config['hidden'] // config['heads']]
        self.kept = {name: {'dims': dims, 'data': []} for name in self.names}

    def feed(self, rows, mask, positions):
        """The inputs for some tokens of each row."""
        return {'input_ids': rows, 'attention_mask': mask,
                'position_ids': positions,
                **{f'past_key_values.{name}': kept
                   for name, kept in self.kept.items()}}

    def step(self, rows, mask, positions):
        """Logits (batch, length, vocabulary), which become part of the past."""
        result, = Runtime.run(self.path, [self.feed(rows, mask, positions)])
        self.kept = {name: result[f'present.{name}'] for name in self.names}
        _, length, width = result['dims']
        data = result['data']
        return [[data[(b * length + i) * width:(b * length + i + 1) * width]
                 for i in range(length)] for b in range(len(rows))]


@unittest.skipIf(absent(), absent())
class DecoderTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        models = reference_models.write(FOLDER / 'reference')
        cls.decoders = {name: model for name, model in models.items()
                        if name.startswith(('llama', 'gpt2'))}

    def export(self, name):
        model = self.decoders[name].folder
        to = export(model, f'{name}_onnx')
        check(to / 'model.onnx')
        (to / 'source.json').write_text((model / 'config.json').read_text())
        return to / 'model.onnx'

    def expect_near(self, ours, theirs, what):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertAlmostEqual(a, b, delta=1e-5, msg=what)

    def test_all_methods(self):
        self.assertEqual(len(self.decoders), 18)
        for name, model in self.decoders.items():
            with self.subTest(name):
                session = Session(self.export(name))
                documents = model.documents()
                results = Runtime.run(session.path, [
                    session.feed([ids], [[1] * len(ids)],
                                 [list(range(len(ids)))])
                    for ids, _, _ in documents])
                for (_, places, logits), result in zip(documents, results):
                    width = result['dims'][2]
                    for place, expected in zip(places, logits.tolist()):
                        self.expect_near(
                            result['data'][place * width:(place + 1) * width],
                            expected, name)

    def test_steps_are_the_whole(self):
        ids = [[3, 8, 4, 20, 1], [7, 7, 2, 9, 5]]
        for name in ('llama', 'gpt2'):
            path = self.export(name)
            whole = Session(path, 2).step(ids, [[1] * 5] * 2,
                                          [list(range(5))] * 2)
            session, done = Session(path, 2), 0
            for count in (2, 1, 2):
                end = done + count
                logits = session.step([row[done:end] for row in ids],
                                      [[1] * end] * 2,
                                      [list(range(done, end))] * 2)
                for ours, theirs in zip(logits, whole):
                    for a, b in zip(ours, theirs[done:end]):
                        self.expect_near(a, b, name)
                done = end

    def test_padding_in_front_changes_nothing(self):
        for name in ('llama', 'gpt2'):
            path = self.export(name)
            alone, = Session(path).step([[5, 9]], [[1, 1]], [[0, 1]])
            session = Session(path, 2)
            padded, _ = session.step([[2, 5], [4, 6]], [[0, 1], [1, 1]],
                                     [[0, 0], [0, 1]])
            self.expect_near(padded[1], alone[0], name)
            padded, _ = session.step([[9], [8]], [[0, 1, 1], [1, 1, 1]],
                                     [[1], [2]])
            self.expect_near(padded[0], alone[1], name)


if __name__ == '__main__':
    unittest.main(verbosity=2)
