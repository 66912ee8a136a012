#!/usr/bin/python3
"""comera export --format hf-factors: the folder's own modules compute the
engine's logits, by the classes that the transformers library calls."""

import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, 'stand_in')]
sys.dont_write_bytecode = True
import reference_models  # pylint: disable=wrong-import-position
import tiny_models as tiny  # pylint: disable=wrong-import-position
import torch  # pylint: disable=wrong-import-position
import transformers  # pylint: disable=wrong-import-position

FOLDER = tiny.folder() / 'hf_factors'
TOLERANCE = 1e-5


def export(model, code=0):
    to = FOLDER / 'exported' / '_'.join(model.parts[-2:])
    done = tiny.run('export', model, '--format', 'hf-factors', '--to', to,
                    '--trainer-binary', tiny.TRAINER, code=code)
    return to if code == 0 else done.stderr


class HfFactorsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.models = reference_models.write(FOLDER / 'reference')

    def expect_near(self, ours, theirs, what):
        self.assertEqual(ours.shape, theirs.shape, what)
        worst = float((ours - theirs).abs().max())
        self.assertLess(worst, TOLERANCE, what)

    def test_decoders(self):
        names = [n for n in self.models if n.startswith(('llama', 'gpt2'))]
        self.assertEqual(len(names), 18)
        for name in names:
            with self.subTest(name), torch.no_grad():
                reference = self.models[name]
                model = transformers.AutoModelForCausalLM.from_pretrained(
                    export(reference.folder), trust_remote_code=True)
                for ids, places, logits in reference.documents():
                    found = model(torch.tensor([ids])).logits[0]
                    self.expect_near(found[places], logits, name)

    def test_encoders(self):
        for kind, automatic in (
                ('classifier', transformers.AutoModelForSequenceClassification),
                ('masked_lm', transformers.AutoModelForMaskedLM)):
            names = [n for n in self.models if n.startswith(kind)]
            self.assertGreater(len(names), 4)
            for name in names:
                with self.subTest(name), torch.no_grad():
                    reference = self.models[name]
                    model = automatic.from_pretrained(
                        export(reference.folder), trust_remote_code=True)
                    logits = model(**reference.inputs()).logits
                    if kind == 'masked_lm':
                        logits = logits.flatten(0, 1)[reference.rows]
                    self.expect_near(logits, reference.logits, name)

    def load(self, name):
        return transformers.AutoModelForCausalLM.from_pretrained(
            export(self.models[name].folder), trust_remote_code=True)

    def test_steps_with_a_cache_are_the_whole(self):
        for name in ('llama', 'gpt2'):
            model = self.load(name)
            ids = torch.tensor([[3, 8, 4, 20, 1], [7, 7, 2, 9, 5]])
            with torch.no_grad():
                whole = model(ids).logits
                first = model(ids[:, :2], use_cache=True)
                self.expect_near(first.logits, whole[:, :2], name)
                second = model(ids[:, 2:4], past_key_values=first.past_key_values)
                self.expect_near(second.logits, whole[:, 2:4], name)
                third = model(ids[:, 4:], past_key_values=second.past_key_values,
                              logits_to_keep=1)
                self.expect_near(third.logits, whole[:, 4:], name)

    def test_padding_in_front_changes_nothing(self):
        for name in ('llama', 'gpt2'):
            model = self.load(name)
            with torch.no_grad():
                alone = model.generate(torch.tensor([[5, 9]]), max_new_tokens=3)
                both = model.generate(
                    torch.tensor([[2, 5, 9], [4, 6, 8]]),
                    torch.tensor([[0, 1, 1], [1, 1, 1]]), max_new_tokens=3)
                self.assertEqual(alone[0].tolist(), both[0, 1:].tolist())
                logits = model(torch.tensor([[2, 5, 9]]),
                               attention_mask=torch.tensor([[0, 1, 1]])).logits
                self.expect_near(
                    logits[:, 1:], model(torch.tensor([[5, 9]])).logits, name)

    def test_gradients_reach_the_cores(self):
        for name in ('llama', 'gpt2'):
            model = self.load(name)
            ids = torch.tensor([[3, 8, 4, 20, 1]])
            model(ids, labels=ids).loss.backward()
            for key, parameter in model.named_parameters():
                self.assertIsNotNone(parameter.grad, key)

    def test_the_folder_is_complete_and_small(self):
        model, _, _ = tiny.causal_lm(FOLDER, 'LLAMA', 'BYTE_BPE')
        to = export(model)
        for name in ('tokenizer.json', 'generation_config.json'):
            self.assertTrue((to / name).exists(), name)
        sizes = [(folder / 'model.safetensors').stat().st_size
                 for folder in (model, to)]
        self.assertLess(abs(sizes[0] - sizes[1]), 100)
        config = json.loads((to / 'config.json').read_text())
        self.assertEqual(config['bos_token_id'], 0)
        self.assertEqual(config['eos_token_id'], 2)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(
            to, trust_remote_code=True)
        self.assertEqual(loaded.config.num_key_value_heads, 2)
        self.assertEqual(loaded.config.vocab_size, 320)
        # The modules need nothing of comera.
        for source in to.glob('*.py'):
            self.assertNotIn('import comera', source.read_text())
        done = subprocess.run(
            [sys.executable, '-m', 'compileall', '-q', str(to)], check=False)
        self.assertEqual(done.returncode, 0)

    def test_labels_of_a_classifier(self):
        model, _, _ = tiny.classifier(FOLDER)
        loaded = transformers.AutoModelForSequenceClassification.from_pretrained(
            export(model), trust_remote_code=True)
        self.assertEqual(list(loaded.config.id2label.values()), tiny.LABELS)

    def test_clicks_are_refused(self):
        model, _, _ = tiny.clicks(FOLDER)
        self.assertIn('DLRM', export(model, code=1))


if __name__ == '__main__':
    unittest.main(verbosity=2)
