#!/usr/bin/python3
"""Texts of a language model: comera generate on this machine and by a worker,
several at once, and the worker's HTTP port."""

import concurrent.futures
import json
import os
import re
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
import tiny_models as tiny
from model_cluster import Cluster, wait_for

FOLDER = tiny.folder()
PROMPTS = ['The ', 'The sun of', 'The moon of the ', 'The f', 'The star', 'T',
           'The tree of the s', 'The leaf of ']


class GenerateTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.model, job, _ = tiny.causal_lm(FOLDER, 'GPT2', 'CHARACTERS')
        admin = FOLDER / 'admin.token'
        cls.cluster = Cluster(FOLDER / 'cluster',
                              f'--init_admin_token_file={admin}')
        wait_for(admin.exists)
        for name, flags in (('worker', ['--worker', '--worker-name', 'one']),
                            ('alice', ['--role', 'user'])):
            token = cls.cluster.comera('token', 'create', '--name', name,
                                       *flags, '--token-file', admin).stdout
            (FOLDER / f'{name}.token').write_text(token)
        cls.alice = ['--token-file', FOLDER / 'alice.token']
        cls.cluster.worker(f'--token_file={FOLDER}/worker.token',
                           '--completions_listen=127.0.0.1:0')
        job = json.loads(cls.cluster.comera('submit', job, '-o', 'json',
                                            *cls.alice).stdout)['name']
        cls.cluster.comera('wait', job, '--timeout', '100s', *cls.alice)
        cls.name = json.loads(cls.cluster.comera(
            'get', job, '-o', 'json', *cls.alice).stdout)['models'][0]['name']
        (FOLDER / 'ticket.token').write_text(cls.cluster.comera(
            'ticket', cls.name, '--worker', 'one', '--lifetime', '1h',
            *cls.alice).stdout)
        log = cls.cluster.folder / 'worker.log'
        cls.http = 'http://' + re.search(
            r'completions served address=([0-9.:]+)', log.read_text()).group(1)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def here(self, prompt, *flags, **options):
        done = tiny.run('generate', self.model, prompt, '--trainer-binary',
                        tiny.TRAINER, '--threads', 1, *flags, **options)
        return done.stdout

    def there(self, prompt, *flags, **options):
        done = self.cluster.comera('generate', self.name, prompt, '--remote',
                                   *flags, *self.alice, **options)
        return done.stdout

    def post(self, token='ticket', **fields):
        """The status and body of a request for a completion."""
        headers = {'Content-Type': 'application/json'}
        if token:
            path = FOLDER / f'{token}.token'
            headers['Authorization'] = 'Bearer ' + path.read_text().strip()
        request = urllib.request.Request(
            self.http + '/v1/completions', headers=headers,
            data=json.dumps(dict({'model': self.name}, **fields)).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_equal_requests_give_equal_texts(self):
        flags = ('--max-tokens', 12)
        greedy = self.here('The ', '--temperature', 0, *flags)
        # Tokens are characters; a text that does not end its line is ended.
        self.assertIn(len(greedy), (12, 13))
        self.assertEqual(self.here('The ', '--temperature', 0, *flags), greedy)
        self.assertEqual(self.here('The ', '--top-k', 1, *flags), greedy)
        drawn = {self.here('The ', '--seed', seed, *flags)
                 for seed in (1, 1, 2, 3, 4)}
        self.assertGreater(len(drawn), 1)
        self.assertLess(len(drawn), 5)

    def test_figures_and_ends(self):
        done = tiny.run('generate', self.model, '-', '--trainer-binary',
                        tiny.TRAINER, '--max-tokens', 5, '--temperature', 0,
                        '-o', 'json', data='The \n')
        pieces = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(pieces[-1]['finish'], 'LENGTH')
        self.assertEqual(pieces[-1]['prompt_tokens'], 4)
        self.assertEqual(pieces[-1]['generated_tokens'], 5)
        self.assertEqual(
            sum(len(piece.get('text', '')) for piece in pieces), 5)
        self.assertRegex(done.stderr,
                         r'4 tokens of prompt, 5 generated \(length\)')
        whole = self.here('The ', '--temperature', 0, '--max-tokens', 20)
        stop = whole[3:5]
        self.assertEqual(
            self.here('The ', '--temperature', 0, '--max-tokens', 20, '--stop',
                      stop).rstrip('\n'), whole[:whole.index(stop)].rstrip('\n'))

    def test_a_worker_says_the_same(self):
        for prompt in PROMPTS[:2]:
            self.assertEqual(
                self.there(prompt, '--temperature', 0, '--max-tokens', 12),
                self.here(prompt, '--temperature', 0, '--max-tokens', 12))

    def test_texts_and_predictions_at_the_same_time(self):
        def complete(prompt):
            status, body = self.post(prompt=prompt, max_tokens=12,
                                     temperature=0)
            self.assertEqual(status, 200, body)
            return json.loads(body)['choices'][0]['text']

        alone = [complete(prompt) for prompt in PROMPTS]
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            rows = pool.submit(
                self.cluster.comera, 'predict', self.name, '--remote', '-o',
                'json', *self.alice, data='{"text": "The "}\n' * 50)
            for _ in range(3):
                self.assertEqual(list(pool.map(complete, PROMPTS)), alone)
            self.assertEqual(len(rows.result().stdout.splitlines()), 50)

    def test_http_streams_the_same_text(self):
        asked = {'prompt': 'The ', 'max_tokens': 12, 'temperature': 0}
        status, body = self.post(**asked)
        self.assertEqual(status, 200, body)
        whole = json.loads(body)
        self.assertEqual(whole['choices'][0]['finish_reason'], 'length')
        self.assertEqual(whole['usage'], {
            'prompt_tokens': 4, 'completion_tokens': 12, 'total_tokens': 16})
        self.assertEqual(
            whole['choices'][0]['text'].rstrip('\n'),
            self.here('The ', '--temperature', 0, '--max-tokens',
                      12).rstrip('\n'))
        status, body = self.post(stream=True, **asked)
        events = body.split('\n\n')
        self.assertEqual(events[-2:], ['data: [DONE]', ''])
        pieces = [json.loads(event[len('data: '):]) for event in events[:-2]]
        self.assertEqual(
            ''.join(piece['choices'][0]['text'] for piece in pieces),
            whole['choices'][0]['text'])

    def test_http_asks_for_tokens_as_the_rpcs_do(self):
        (FOLDER / 'forged.token').write_text(
            'comera_' + 'a' * 16 + '_' + '0' * 64)
        # A token of a user is refused too: it does not belong on a worker.
        for token in (None, 'forged', 'alice'):
            status, body = self.post(token, prompt='x')
            self.assertEqual(status, 401, body)
            self.assertEqual(json.loads(body)['error']['code'],
                             'invalid_api_key')
        request = urllib.request.Request(
            self.http + '/v1/models', headers={
                'Authorization':
                'Bearer ' + (FOLDER / 'ticket.token').read_text().strip()})
        with urllib.request.urlopen(request, timeout=60) as answer:
            models = json.loads(answer.read())['data']
        self.assertEqual([model['id'] for model in models], [self.name])
        log = (self.cluster.folder / 'worker.log').read_text()
        self.assertNotIn((FOLDER / 'alice.token').read_text().strip(), log)

    def test_requests_out_of_their_limits_are_refused(self):
        long = 'The ' * 50
        status, body = self.post(prompt=long)
        self.assertEqual(status, 400)
        self.assertEqual(json.loads(body)['error']['param'], 'prompt')
        for run in (self.here, self.there):
            run(long, code=1)
        # The ticket is for one model; of others it does not say whether they
        # exist.
        status, body = self.post(prompt='x', model='jobs/nope/models/model')
        self.assertEqual(status, 403, body)

    def test_other_models_generate_nothing(self):
        masked, _, _ = tiny.masked_lm(FOLDER)
        done = tiny.run('generate', masked, 'x', '--trainer-binary',
                        tiny.TRAINER, code=1)
        self.assertIn('causal_lm', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
