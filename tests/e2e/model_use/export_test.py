#!/usr/bin/python3
"""comera export: others compute from the files what comera predict computes."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import hf_reader  # pylint: disable=wrong-import-position
import tiny_models as tiny  # pylint: disable=wrong-import-position

FOLDER = tiny.folder()


def export(model, form, name):
    to = FOLDER / name
    tiny.run('export', model, '--format', form, '--to', to, '--trainer-binary',
             tiny.TRAINER)
    return to


def wordpiece(vocabulary, text):
    """Words of the test's data are tokens, or letters and their like."""
    ids = []
    for word in text.lower().split():
        ids.append(vocabulary.get(word, vocabulary['[UNK]']))
    return ids


class ClassifierTest(unittest.TestCase):

    def check(self, classes, method, name):
        model, _, _ = tiny.classifier(FOLDER, classes=classes, method=method,
                                      name=name)
        to = export(model, 'hf', name + '_hf')
        reader = hf_reader.HuggingFaceModel(to)
        self.assertEqual(list(reader.config['id2label'].values()),
                         tiny.LABELS[:classes])
        vocabulary = {token: i for i, token in enumerate(
            (to / 'vocab.txt').read_text().splitlines())}
        rows = [line.split('\t')[1:3] for line in
                (FOLDER / 'dev.tsv').read_text().splitlines()[1:31]]
        answers = tiny.predictions(model, '--logits', data=''.join(
            json.dumps({'text': a, 'text_pair': b}) + '\n' for a, b in rows))
        for (first, second), answer in zip(rows, answers):
            a, b = wordpiece(vocabulary, first), wordpiece(vocabulary, second)
            self.assertLess(len(a) + len(b), 21)
            ids = [vocabulary['[CLS]'], *a, vocabulary['[SEP]'], *b,
                   vocabulary['[SEP]']]
            segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
            logits = reader.logits(ids, segments).tolist()
            self.assertEqual(len(logits), classes)
            for ours, theirs in zip(answer['logits'], logits):
                self.assertAlmostEqual(ours, theirs, delta=2e-5)
        self.assertEqual(reader.unused, set())
        return model, answers, rows

    def test_bert(self):
        self.check(3, 'COMERA', 'bert')

    def test_two_classes_dense(self):
        self.check(2, 'DENSE', 'bert_dense')

    def test_adapters_are_merged(self):
        self.check(3, 'LORA', 'bert_lora')

    def test_cola_has_no_dense_form(self):
        model, _, _ = tiny.classifier(FOLDER, method='COLA', name='cola')
        done = tiny.run('export', model, '--format', 'hf', '--to',
                        FOLDER / 'cola_hf', '--trainer-binary', tiny.TRAINER,
                        code=1)
        self.assertIn('SiLU', done.stderr)
        self.assertFalse((FOLDER / 'cola_hf' / 'config.json').exists())

    def test_dense_safetensors_are_a_model_of_ours(self):
        model, answers, rows = self.check(3, 'COMERA', 'ours')
        dense = export(model, 'safetensors', 'ours_dense')
        self.assertGreater((dense / 'model.safetensors').stat().st_size,
                           (model / 'model.safetensors').stat().st_size)
        again = tiny.predictions(dense, '--logits', data=''.join(
            json.dumps({'text': a, 'text_pair': b}) + '\n' for a, b in rows))
        for one, two in zip(answers, again):
            for a, b in zip(one['logits'], two['logits']):
                self.assertAlmostEqual(a, b, delta=2e-5)

    def test_a_model_is_not_overwritten_by_its_own_form(self):
        model, _, _ = tiny.classifier(FOLDER, name='kept')
        before = (model / 'model.safetensors').read_bytes()
        for form in ('safetensors', 'hf', 'onnx'):
            done = tiny.run('export', model, '--format', form, '--to',
                            model / '..' / model.name, '--trainer-binary',
                            tiny.TRAINER, code=1)
            self.assertIn('own folder', done.stderr)
        self.assertEqual((model / 'model.safetensors').read_bytes(), before)


class MaskedLmTest(unittest.TestCase):

    def check(self, tie_output, name):
        model, _, _ = tiny.masked_lm(FOLDER, tie_output=tie_output, name=name)
        to = export(model, 'hf', name + '_hf')
        reader = hf_reader.HuggingFaceModel(to)
        self.assertEqual(reader.config['model_type'], 'roberta')
        vocabulary = json.loads((to / 'vocab.json').read_text())
        # A letter and a digit are words of one token.
        answer, = tiny.predictions(model, '--logits',
                                   data='{"text": "a<mask>7"}')
        ids = [vocabulary[piece] for piece in ('<s>', 'a', '<mask>', '7',
                                               '</s>')]
        mask, = answer['masks']
        self.assertEqual(mask['position'], 2)
        logits = reader.logits(ids, [0] * len(ids))[mask['position']].tolist()
        for ours, theirs in zip(mask['logits'], logits):
            self.assertAlmostEqual(ours, theirs, delta=2e-5)
        self.assertEqual(reader.unused, set())

    def test_roberta(self):
        self.check(False, 'roberta')

    def test_tied_output(self):
        self.check(True, 'roberta_tied')


class RefusalTest(unittest.TestCase):

    def test_dlrm_is_no_encoder(self):
        model, _, _ = tiny.clicks(FOLDER)
        done = tiny.run('export', model, '--format', 'hf', '--to',
                        FOLDER / 'clicks_hf', '--trainer-binary', tiny.TRAINER,
                        code=1)
        self.assertIn('DLRM', done.stderr)
        dense = export(model, 'safetensors', 'clicks_dense')
        before = tiny.evaluation(model, '--input', FOLDER / 'clicks_dev.tsv')
        after = tiny.evaluation(dense, '--input', FOLDER / 'clicks_dev.tsv')
        self.assertAlmostEqual(before['loss'], after['loss'], delta=1e-5)

    def test_warm_start_reads_what_was_written(self):
        """A job starts from the Hugging Face folder of another's model."""
        model, job, _ = tiny.classifier(FOLDER, name='first')
        to = export(model, 'hf', 'first_hf')
        spec = json.loads(job.read_text())
        spec['compression'] = {'method': 'DENSE'}
        spec['initial_weights'] = {'safetensors': str(to / 'model.safetensors')}
        spec['objective'] = {'early': {'steps': 1}}
        task = FOLDER / 'second.task.json'
        task.write_text(json.dumps({'spec': spec, 'threads': 1,
                                    'work_dir': str(FOLDER / 'second')}))
        done = subprocess.run([tiny.TRAINER, f'--task={task}'],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
