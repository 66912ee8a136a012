#!/usr/bin/python3
"""A worker answers with models of the coordinator's store: comera predict
--remote, tokens, a child that is killed, models that make room for others."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
import tiny_models as tiny
from model_cluster import Cluster, wait_for

FOLDER = tiny.folder()
ROWS = ''.join(json.dumps({'text': f'int value_{i % 11} = <mask>;'}) + '\n'
               for i in range(300))


def children(pid):
    """Living comera-trainers that this process has started."""
    found = []
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        try:
            _, _, rest = (entry / 'stat').read_text().rpartition(')')
            state, parent = rest.split()[:2]
            name = (entry / 'comm').read_text().strip()
        except OSError:
            continue
        if int(parent) == pid and state not in 'ZX' and name.startswith(
                'comera-trainer'):
            found.append(int(entry.name))
    return found


class RemoteTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(FOLDER / 'open')
        cls.worker = cls.cluster.worker('--predict_models=1')
        _, job, _ = tiny.masked_lm(FOLDER)
        cls.jobs = []
        for seed in (1, 2):
            done = cls.cluster.comera('submit', job, '--set',
                                      f'training.seed={seed}', '-o', 'json')
            cls.jobs.append(json.loads(done.stdout)['name'])
        for job in cls.jobs:
            cls.cluster.comera('wait', job, '--timeout', '100s')

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def ask(self, job, *flags, **options):
        done = self.cluster.comera('predict', job, '--remote', '-o', 'json',
                                   *flags, data=ROWS, **options)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_worker_answers_as_this_machine_does(self):
        job = self.jobs[0]
        there = self.ask(job)
        here = tiny.predictions(job, '--server', self.cluster.address,
                                data=ROWS)
        self.assertEqual(len(there), 300)
        for a, b in zip(there, here):
            self.assertEqual(
                [c['token'] for c in a['masks'][0]['choices']],
                [c['token'] for c in b['masks'][0]['choices']])
            self.assertAlmostEqual(a['masks'][0]['choices'][0]['probability'],
                                   b['masks'][0]['choices'][0]['probability'],
                                   delta=1e-5)

    def test_a_model_that_dies_is_started_again(self):
        self.ask(self.jobs[0])
        child, = children(self.worker.pid)
        os.kill(child, signal.SIGKILL)
        self.assertEqual(len(self.ask(self.jobs[0])), 300)
        again, = children(self.worker.pid)
        self.assertNotEqual(again, child)

    def test_models_make_room_for_others_and_ranks_leave_them_alone(self):
        self.ask(self.jobs[0])
        first, = children(self.worker.pid)
        self.ask(self.jobs[1])
        second, = children(self.worker.pid)
        self.assertNotEqual(first, second)
        # A rank that ends is no reason to end what answers.
        done = self.cluster.comera('submit', FOLDER / 'masked_lm.json', '--set',
                                   'objective.early.steps=2', '-o', 'json')
        self.cluster.comera('wait', json.loads(done.stdout)['name'],
                            '--timeout', '100s')
        self.assertEqual(children(self.worker.pid), [second])

    def test_what_is_not_there(self):
        done = self.cluster.comera('predict', 'jobs/nope/models/model',
                                   '--remote', data='', code=5)
        self.assertIn('nope', done.stderr)
        done = self.cluster.comera('predict', self.jobs[0], '--worker', 'two',
                                   data='', code=5)
        self.assertIn('no worker two', done.stderr)

    def test_a_worker_that_goes_is_named(self):
        cluster = Cluster(FOLDER / 'going')
        self.addCleanup(cluster.stop)
        worker = cluster.worker()
        job = json.loads(cluster.comera(
            'submit', FOLDER / 'masked_lm.json', '--set',
            'objective.early.steps=2', '-o', 'json').stdout)['name']
        cluster.comera('wait', job, '--timeout', '100s')
        with subprocess.Popen(
                [tiny.COMERA, '--server', cluster.address, 'predict', job,
                 '--remote'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True) as client:
            client.stdin.write('{"text": "a <mask>"}\n')
            client.stdin.flush()
            client.stdout.readline()
            worker.terminate()
            self.assertEqual(worker.wait(30), 0)
            client.stdin.write('{"text": "a <mask>"}\n')
            client.stdin.close()
            self.assertEqual(client.wait(60), 3)
            self.assertNotIn('coordinator', client.stderr.read())

    def test_bad_rows_are_told(self):
        done = self.cluster.comera('predict', self.jobs[0], '--remote',
                                   data='{"text": "no mask"}\n', code=1)
        self.assertIn('no <mask>', done.stderr)


class TokenTest(unittest.TestCase):

    def test_who_may_see_the_model_may_ask(self):
        cluster = Cluster(FOLDER / 'closed',
                          f'--init_admin_token_file={FOLDER}/admin.token')
        self.addCleanup(cluster.stop)
        admin = FOLDER / 'admin.token'
        wait_for(admin.exists)
        for name, flags in (('worker', ['--worker', '--worker-name', 'one']),
                            ('alice', ['--role', 'user']),
                            ('bob', ['--role', 'viewer'])):
            token = cluster.comera('token', 'create', '--name', name, *flags,
                                   '--token-file', admin).stdout
            (FOLDER / f'{name}.token').write_text(token)
        cluster.worker(f'--token_file={FOLDER}/worker.token')
        _, job, _ = tiny.masked_lm(FOLDER, name='closed_lm')
        alice = ['--token-file', FOLDER / 'alice.token']
        name = json.loads(cluster.comera('submit', job, '-o', 'json',
                                         *alice).stdout)['name']
        cluster.comera('wait', name, '--timeout', '100s', *alice)
        done = cluster.comera('predict', name, '--remote', '-o', 'json', *alice,
                              data=ROWS)
        self.assertEqual(len(done.stdout.splitlines()), 300)
        # Without a ticket the coordinator is asked as nobody, and says no; so
        # the worker's own token lets nobody in. A token is refused.
        model = json.loads(cluster.comera(
            'get', name, '-o', 'json', *alice).stdout)['models'][0]['name']
        address = json.loads(cluster.comera(
            'workers', '-o', 'json', *alice).stdout)['workers'][0]['peer_address']
        ticket = cluster.comera('ticket', model, '--worker', 'one',
                                *alice).stdout.strip()
        unused = cluster.comera('ticket', model, '--worker', 'one',
                                *alice).stdout.strip()
        self.ask_as(address, model, [('comera-ticket', ticket)], 'OK')
        self.ask_as(address, model, [], 'UNAUTHENTICATED')
        token = (FOLDER / 'alice.token').read_text().strip()
        self.ask_as(address, model, [('authorization', f'Bearer {token}')],
                    'UNAUTHENTICATED')
        # A seal that is cut, and tickets for another model or worker.
        forged = ticket[:-4] + 'AAA='
        self.ask_as(address, model, [('comera-ticket', forged)],
                    'UNAUTHENTICATED')
        self.ask_as(address, 'jobs/other/models/model',
                    [('comera-ticket', ticket)], 'PERMISSION_DENIED')
        cluster.comera('ticket', model, '--worker', 'two', *alice, code=5)
        # It ends with the token that it was made with.
        cluster.comera('token', 'revoke', token.split('_')[1],
                       '--token-file', admin)
        fresh = cluster.comera('ticket', model, '--worker', 'one',
                               '--token-file', admin).stdout.strip()
        self.ask_as(address, model, [('comera-ticket', fresh)], 'OK')
        self.ask_as(address, model, [('comera-ticket', unused)],
                    'UNAUTHENTICATED')
        for log in cluster.folder.glob('*.log'):
            for token in ('alice', 'worker'):
                self.assertNotIn((FOLDER / f'{token}.token').read_text().strip(),
                                 log.read_text())

    def ask_as(self, address, model, metadata, code):
        self.assertEqual(self.asked_as(address, model, metadata), code)

    def asked_as(self, address, model, metadata):
        """Asks the worker directly, with a channel of grpcio's."""
        import grpc  # pylint: disable=import-outside-toplevel
        name = model.encode()
        request = bytes([0x0a, len(name)]) + name  # LoadModelRequest.name
        with grpc.insecure_channel(address) as channel:
            load = channel.unary_unary('/comera.v1.PredictService/LoadModel')
            try:
                load(request, metadata=metadata, timeout=60)
                return 'OK'
            except grpc.RpcError as error:
                return error.code().name


if __name__ == '__main__':
    unittest.main(verbosity=2)
