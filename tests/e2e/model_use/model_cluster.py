"""A cluster of the real programs that serves models."""

import os
import subprocess
import time

import tiny_models as tiny

SERVER = os.path.abspath('server/comera-server')
WORKER = os.path.abspath('worker/comera-worker')


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.05)


class Cluster:
    """A coordinator and its workers, below a folder."""

    def __init__(self, folder, *server_flags):
        self.folder = folder
        self.folder.mkdir()
        port = self.folder / 'port'
        self.processes = []
        self.start('server', SERVER, '--listen=127.0.0.1:0',
                   f'--data_dir={self.folder}/server', f'--port_file={port}',
                   *server_flags)
        wait_for(lambda: port.exists() and port.read_text().strip())
        self.address = port.read_text().strip()

    def start(self, log, *command):
        with open(self.folder / f'{log}.log', 'wb') as file:
            self.processes.append(subprocess.Popen(  # pylint: disable=R1732
                [str(part) for part in command], stderr=file))
        return self.processes[-1]

    def worker(self, *flags):
        return self.start('worker', WORKER, f'--server={self.address}',
                          '--slots=1', f'--data_dir={self.folder}/worker',
                          '--name=one', '--data_root=/',
                          f'--trainer={tiny.TRAINER}', *flags)

    def comera(self, *arguments, **options):
        return tiny.run('--server', self.address, *arguments, **options)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(30)
