"""Several coordinators, of which one leads at a time."""

import threading
import time
import unittest

import grpc

import comera
from fake_server import FakeServer, job


class FakeHealth:
    """grpc.health.v1 for the service that says who leads, in raw bytes."""

    def __init__(self, fake, leads):
        self._lock = threading.Condition()
        self._leads = leads
        self._stopped = False
        handler = grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health",
            {"Watch": grpc.unary_stream_rpc_method_handler(self._watch)},
        )
        fake.server.add_generic_rpc_handlers((handler,))

    def _watch(self, request, context):
        assert b"comera.v1.Leader" in request
        told = None
        while context.is_active():
            with self._lock:
                self._lock.wait_for(
                    lambda: self._stopped or self._leads != told, timeout=1
                )
                if self._stopped:
                    return
                if self._leads == told:
                    continue
                told = self._leads
            # HealthCheckResponse{status: SERVING or NOT_SERVING}.
            yield b"\x08\x01" if told else b"\x08\x02"

    def set(self, leads):
        with self._lock:
            self._leads = leads
            self._lock.notify_all()

    def stop(self):
        with self._lock:
            self._stopped = True
            self._lock.notify_all()


class LeadersTest(unittest.TestCase):
    def test_calls_go_to_the_one_that_leads(self):
        fakes = [FakeServer(), FakeServer()]
        health = [FakeHealth(fakes[0], False), FakeHealth(fakes[1], True)]
        for number, fake in enumerate(fakes):
            fake.answers["GetJob"] = job(reason=f"from {number}")
            self.addCleanup(fake.stop)
            self.addCleanup(health[number].stop)
        policy = comera.RetryPolicy(timeout=30, initial_backoff=0.02, max_backoff=0.2)
        client = comera.Client(",".join(f.address for f in fakes), retry=policy)
        self.addCleanup(client.close)
        for _ in range(3):
            self.assertEqual(client.get("a").reason, "from 1")
        self.assertEqual(fakes[0].calls, [])

        # Leadership moves; calls follow, at first perhaps to the old one.
        health[1].set(False)
        health[0].set(True)
        limit = time.monotonic() + 20
        while client.get("a").reason != "from 0":
            self.assertLess(time.monotonic(), limit)
        for _ in range(3):
            self.assertEqual(client.get("a").reason, "from 0")


if __name__ == "__main__":
    unittest.main()
