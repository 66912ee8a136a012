"""A client of a coordinator that does as it is told."""

import os
import unittest

import comera
from fake_server import FakeServer

QUICK = comera.RetryPolicy(
    timeout=10, attempt_timeout=5, initial_backoff=0.01, max_backoff=0.05,
    reconnect_timeout=5, stream_lifetime=30,
)


class ClientTestCase(unittest.TestCase):
    def setUp(self):
        self.fake = FakeServer()
        self.addCleanup(self.fake.stop)
        self.client = comera.Client(self.fake.address, retry=QUICK)
        self.addCleanup(self.client.close)
        os.environ.pop("COMERA_TOKEN", None)
