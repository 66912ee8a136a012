#!/usr/bin/python3
"""comera predict and evaluate on models that comera-trainer has just trained."""

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import tiny_models as tiny  # pylint: disable=wrong-import-position

FOLDER = tiny.folder()


class ClassifierTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.model, cls.job, cls.result = tiny.classifier(FOLDER)

    def test_the_export_tells_how_rows_are_read(self):
        inputs = json.loads((self.model / 'inputs.json').read_text())
        self.assertEqual(inputs['fields'], ['premise', 'hypothesis'])
        self.assertEqual(inputs['label_field'], 'gold')
        self.assertEqual(inputs['labels'], tiny.LABELS)
        config = json.loads((self.model / 'tokenizer_config.json').read_text())
        self.assertIs(config['do_lower_case'], True)

    def test_one_answer_a_row_in_order(self):
        """300 rows make several requests and many batches."""
        rows = tiny.predictions(self.model, '--input', FOLDER / 'dev.tsv',
                                '--label-column', 'gold', '--logits')
        self.assertEqual(len(rows), 300)
        lines = (FOLDER / 'dev.tsv').read_text().splitlines()[1:]
        for at in (0, 17, 255, 256, 299):
            _, premise, hypothesis, label = lines[at].split('\t')
            alone, = tiny.predictions(
                self.model, '--logits', '--batch', 1, data=json.dumps(
                    {'premise': premise, 'hypothesis': hypothesis}))
            for a, b in zip(alone['logits'], rows[at]['logits']):
                self.assertAlmostEqual(a, b, delta=1e-5)
            chosen = rows[at]['probabilities'][tiny.LABELS.index(label)]
            self.assertAlmostEqual(rows[at]['loss'], -math.log(chosen),
                                   delta=1e-5)
            best = max(range(3), key=lambda c: rows[at]['logits'][c])
            self.assertEqual(rows[at]['label'], tiny.LABELS[best])

    def test_evaluation_is_what_training_told(self):
        of_job = tiny.evaluation(self.model, '--data', self.job)
        self.assertAlmostEqual(of_job['loss'],
                               self.result['validation_loss'], delta=1e-5)
        self.assertAlmostEqual(of_job['accuracy'],
                               self.result['validation_accuracy'], delta=1e-9)
        packed = FOLDER / 'dev_packed.tsv.gz'
        packed.write_bytes(gzip.compress((FOLDER / 'dev.tsv').read_bytes()))
        of_rows = tiny.evaluation(self.model, '--input', packed)
        self.assertAlmostEqual(of_rows['loss'], of_job['loss'], delta=1e-6)
        self.assertEqual(of_rows['accuracy'], of_job['accuracy'])
        self.assertEqual(of_rows['samples'], 300)

    def test_rows_that_cannot_be_answered_are_told(self):
        done = tiny.run(
            'predict', self.model, '--trainer-binary', tiny.TRAINER,
            '--label-column', 'l', code=1,
            data='{"text": "sun", "l": "yes"}\n{"text": "x", "l": "never"}\n'
                 '{"text": "moon", "l": "no"}\n')
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn('never', lines[1])
        self.assertIn('line 2', done.stderr)
        self.assertIn('1 of 3', done.stderr)

    def test_a_malformed_line_ends_it_after_the_answers_before(self):
        done = tiny.run(
            'predict', self.model, '--trainer-binary', tiny.TRAINER, code=1,
            data='{"text": "sun"}\n{"text": "moon"}\nnonsense\n')
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn('standard input:3: not a JSON object', done.stderr)

    def test_the_input_is_not_overwritten(self):
        rows = FOLDER / 'kept.jsonl'
        rows.write_text('{"text": "sun", "text_pair": "moon"}\n')
        done = tiny.run('predict', self.model, '--input', rows, '--out', rows,
                        '--trainer-binary', tiny.TRAINER, code=2)
        self.assertIn('overwrite', done.stderr)
        self.assertIn('sun', rows.read_text())

    def test_answers_come_before_the_input_ends(self):
        with subprocess.Popen(
                [tiny.COMERA, 'predict', self.model, '--trainer-binary',
                 tiny.TRAINER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as child:
            child.stdin.write('{"text": "sun"}\n')
            child.stdin.flush()
            self.assertIn('\t', child.stdout.readline())
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(30), 130)

    def test_what_is_no_model(self):
        for path, code, what in (
                (FOLDER, 5, 'config.json is not there'),
                ('/nonexistent', 5, 'no folder of a model')):
            done = tiny.run('predict', path, code=code, data='')
            self.assertIn(what, done.stderr)
        broken = FOLDER / 'broken'
        broken.mkdir(exist_ok=True)
        for name in ('config.json', 'model.safetensors'):
            (broken / name).write_text('{}')
        done = tiny.run('predict', broken, '--trainer-binary', tiny.TRAINER,
                        code=1, data='')
        self.assertIn('not a comera-model', done.stderr)

    def test_another_models_job_is_refused(self):
        job = json.loads(self.job.read_text())
        job['model'] = {'family': 'MASKED_LM', 'layers': 2, 'hidden': 16,
                        'ffn': 32, 'heads': 2}
        other = FOLDER / 'other.json'
        other.write_text(json.dumps(job))
        done = tiny.run('evaluate', self.model, '--data', other,
                        '--trainer-binary', tiny.TRAINER, code=1)
        self.assertIn('model.family', done.stderr)


class MaskedLmTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.model, cls.job, cls.result = tiny.masked_lm(FOLDER)

    def test_masks_are_filled(self):
        row, = tiny.predictions(self.model, '--top-k', 3,
                                data='{"text": "int <mask> = 1; <mask>"}')
        self.assertEqual(len(row['masks']), 2)
        for mask in row['masks']:
            chances = [choice['probability'] for choice in mask['choices']]
            self.assertEqual(len(chances), 3)
            self.assertEqual(chances, sorted(chances, reverse=True))

    def test_evaluation_is_what_training_told(self):
        told = tiny.evaluation(self.model, '--data', self.job)
        self.assertAlmostEqual(told['loss'], self.result['validation_loss'],
                               delta=1e-5)

    def test_pseudo_losses(self):
        text = FOLDER / 'lines.txt'
        text.write_text('int value_1 = 2;\nxyzzy plugh\n')
        rows = tiny.predictions(self.model, '--input', text, '--pseudo-loss')
        self.assertEqual(len(rows), 2)
        told = tiny.evaluation(self.model, '--input', text)
        self.assertAlmostEqual(told['loss'],
                               (rows[0]['loss'] + rows[1]['loss']) / 2)
        self.assertNotIn('accuracy', told)


class ClicksTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.model, cls.job, cls.result = tiny.clicks(FOLDER)

    def test_evaluation_of_rows_is_that_of_the_job(self):
        """So every value has the row of its table that training gave it."""
        of_job = tiny.evaluation(self.model, '--data', self.job)
        self.assertAlmostEqual(of_job['loss'], self.result['validation_loss'],
                               delta=1e-5)
        self.assertAlmostEqual(of_job['auc'], self.result['validation_auc'],
                               delta=1e-6)
        of_rows = tiny.evaluation(self.model, '--input',
                                  FOLDER / 'clicks_dev.tsv')
        for key in ('loss', 'auc', 'accuracy', 'normalized_entropy'):
            self.assertAlmostEqual(of_rows[key], of_job[key], delta=1e-5)

    def test_probabilities_of_clicks(self):
        rows = tiny.predictions(self.model, '--input',
                                FOLDER / 'clicks_dev.tsv', '--logits')
        self.assertEqual(len(rows), 50)
        for row in rows:
            self.assertAlmostEqual(sum(row['probabilities']), 1, delta=1e-6)
            self.assertAlmostEqual(
                row['probabilities'][1],
                1 / (1 + math.exp(-row['logits'][0])), delta=1e-6)


if __name__ == '__main__':
    unittest.main(verbosity=2)
