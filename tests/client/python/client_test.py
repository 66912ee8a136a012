"""Calls and streams to a coordinator that fails in every way."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import grpc

import comera
from client_case import ClientTestCase
from fake_server import FakeServer, S, error, job, metrics_event, state_event

Code = grpc.StatusCode


def until_left(context):
    """Says nothing until the client has gone."""
    left = threading.Event()
    if context.add_callback(left.set):
        left.wait(20)


class SubmitTest(ClientTestCase):
    def test_sends_the_spec_and_a_request_id(self):
        self.fake.answers["CreateJob"] = job(state="QUEUED")
        submitted = self.client.submit({"display_name": "x"}, set={"priority": 7})
        self.assertEqual(submitted.name, "jobs/a")
        self.assertEqual(submitted.state, "QUEUED")
        (request,) = self.fake.requests("CreateJob")
        self.assertEqual(request.spec.display_name, "x")
        self.assertEqual(request.spec.priority, 7)
        self.assertEqual(len(request.request_id), 32)
        self.assertFalse(request.validate_only)

    def test_repeats_with_the_same_request_id(self):
        def lost(request, context):
            context.abort(Code.UNAVAILABLE, "gone")

        self.fake.answers["CreateJob"] = [lost, lost, job()]
        self.client.submit({})
        ids = {r.request_id for r in self.fake.requests("CreateJob")}
        self.assertEqual(len(self.fake.requests("CreateJob")), 3)
        self.assertEqual(len(ids), 1)

    def test_bad_fields_are_named(self):
        def refuse(request, context):
            error(
                context, Code.INVALID_ARGUMENT, "bad job", reason="BAD_FIELD",
                fields={"spec.model.hidden": "must be positive"},
            )

        self.fake.answers["CreateJob"] = refuse
        with self.assertRaises(comera.InvalidArgumentError) as caught:
            self.client.submit({})
        self.assertEqual(
            caught.exception.violations,
            (comera.FieldViolation("spec.model.hidden", "must be positive"),),
        )
        self.assertIn("spec.model.hidden: must be positive", str(caught.exception))
        self.assertEqual(caught.exception.reason, "BAD_FIELD")
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(len(self.fake.calls), 1)

    def test_validate_creates_nothing(self):
        self.fake.answers["CreateJob"] = job(name="")
        self.client.validate({})
        self.assertTrue(self.fake.requests("CreateJob")[0].validate_only)

    def test_waits_as_long_as_the_server_asks(self):
        def slow_down(request, context):
            error(context, Code.RESOURCE_EXHAUSTED, "too fast", retry_after=0.3)

        self.fake.answers["CreateJob"] = [slow_down, job()]
        start = time.monotonic()
        self.client.submit({})
        self.assertGreaterEqual(time.monotonic() - start, 0.3)

    def test_a_full_queue_is_not_repeated(self):
        def full(request, context):
            error(context, Code.RESOURCE_EXHAUSTED, "the queue is full")

        self.fake.answers["CreateJob"] = full
        with self.assertRaises(comera.ResourceExhaustedError):
            self.client.submit({})
        self.assertEqual(len(self.fake.calls), 1)


class ErrorTest(ClientTestCase):
    def test_every_code_has_its_exception(self):
        expected = {
            Code.NOT_FOUND: comera.NotFoundError,
            Code.ALREADY_EXISTS: comera.AlreadyExistsError,
            Code.PERMISSION_DENIED: comera.PermissionDeniedError,
            Code.UNAUTHENTICATED: comera.UnauthenticatedError,
            Code.FAILED_PRECONDITION: comera.FailedPreconditionError,
            Code.ABORTED: comera.AbortedError,
            Code.OUT_OF_RANGE: comera.OutOfRangeError,
            Code.DATA_LOSS: comera.DataLossError,
            Code.UNIMPLEMENTED: comera.UnimplementedError,
            Code.INTERNAL: comera.InternalError,
        }
        for code, kind in expected.items():
            self.fake.answers["GetJob"] = lambda r, c, code=code: c.abort(code, "no")
            with self.subTest(code), self.assertRaises(kind) as caught:
                self.client.get("a")
            self.assertEqual(caught.exception.message, "no")

    def test_malformed_details_do_no_harm(self):
        def refuse(request, context):
            context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\x01"),))
            context.abort(Code.NOT_FOUND, "no such job")

        self.fake.answers["GetJob"] = refuse
        with self.assertRaises(comera.NotFoundError):
            self.client.get("a")

    def test_gives_up_in_time(self):
        policy = comera.RetryPolicy(timeout=0.5, initial_backoff=0.01, max_backoff=0.05)
        client = comera.Client("127.0.0.1:1", retry=policy)
        self.addCleanup(client.close)
        start = time.monotonic()
        with self.assertRaises(comera.UnavailableError):
            client.get("a")
        self.assertLess(time.monotonic() - start, 20)

    def test_bad_names_are_refused_here(self):
        for name in ("", "jobs/", "A", "a/b", "sweeps/a", "x" * 64):
            with self.subTest(name), self.assertRaises(comera.ConfigError):
                self.client.get(name)
        self.assertEqual(self.fake.calls, [])


class LeaderTest(ClientTestCase):
    def test_follows_to_the_leader_and_back(self):
        with FakeServer() as leader:

            def redirect(request, context):
                error(
                    context, Code.UNAVAILABLE, "not me", reason="NOT_LEADER",
                    metadata={"leader": leader.address},
                )

            self.fake.answers["GetJob"] = redirect
            leader.answers["GetJob"] = job(state="QUEUED")
            self.assertEqual(self.client.get("a").state, "QUEUED")
            self.assertEqual(self.client.get("a").state, "QUEUED")
            # The second call went to the leader at once.
            self.assertEqual(len(self.fake.calls), 1)
        self.fake.answers["GetJob"] = job(state="RUNNING")
        self.assertEqual(self.client.get("a").state, "RUNNING")

    def test_strange_addresses_are_not_followed(self):
        def redirect(request, context):
            error(
                context, Code.UNAVAILABLE, "not me", reason="NOT_LEADER",
                metadata={"leader": "unix:/tmp/elsewhere"},
            )

        self.fake.answers["GetJob"] = [redirect, job()]
        self.client.get("a")
        self.assertEqual(len(self.fake.calls), 2)

    def test_several_servers_resolve_to_one_target(self):
        from comera._channel import stays_here, target

        where, options = target("127.0.0.1:1,localhost:2")
        self.assertTrue(where.startswith("ipv4:127.0.0.1:1,127.0.0.1:2"))
        names = dict(options)
        self.assertEqual(names["grpc.default_authority"], "127.0.0.1")
        self.assertIn("comera.v1.Leader", names["grpc.service_config"])
        with self.assertRaises(comera.ConfigError):
            target("a:1,b")
        for server, here in {
            "127.0.0.1:7400": True, "[::1]:1": True, "localhost:2": True,
            "unix:/x": True, "dns:///localhost:1": True, "10.0.0.1:1": False,
            "example.com:1": False, "127.0.0.1:1,example.com:1": False,
        }.items():
            self.assertEqual(stays_here(server), here, server)


class WatchTest(ClientTestCase):
    def test_every_event_once_across_disconnects(self):
        first = S.WatchJobResponse(job=job())

        def broken(request, context):
            yield first
            yield metrics_event(1, 10, loss=2.0)
            yield metrics_event(2, 20, loss=1.5)
            context.abort(Code.UNAVAILABLE, "restart")

        def resumed(request, context):
            self.assertEqual(request.after_sequence, 2)
            yield first
            yield metrics_event(2, 20, loss=1.5)
            yield metrics_event(3, 30, loss=1.0)
            yield state_event(4, "SUCCEEDED", outcome=1)

        self.fake.answers["WatchJob"] = [broken, resumed]
        self.fake.answers["GetJob"] = [job(), job(state="SUCCEEDED", outcome=1)]
        watched = self.client.get("a")
        events = list(watched.watch())
        self.assertEqual([e.sequence for e in events], [1, 2, 3, 4])
        self.assertEqual([e.kind for e in events[2:]], ["metrics", "state_change"])
        self.assertEqual(events[0].metrics.loss, 2.0)
        self.assertIsNone(events[0].state_change)
        self.assertEqual(events[3].state, "SUCCEEDED")
        self.assertEqual((watched.state, watched.outcome), ("SUCCEEDED", "TARGET_MET"))
        self.assertTrue(watched.done)

    def test_a_stream_that_ends_early_is_opened_again(self):
        def early(request, context):
            yield S.WatchJobResponse(job=job())

        def final(request, context):
            yield S.WatchJobResponse(job=job(state="CANCELLED"))

        self.fake.answers["WatchJob"] = [early, final]
        self.fake.answers["GetJob"] = job(state="CANCELLED")
        self.assertEqual(list(self.client.watch("a")), [])
        self.assertEqual(len(self.fake.requests("WatchJob")), 2)

    def test_leaving_early_ends_the_stream(self):
        ended = threading.Event()

        def endless(request, context):
            context.add_callback(ended.set)
            yield S.WatchJobResponse(job=job())
            sequence = 0
            while context.is_active() and not ended.is_set():
                sequence += 1
                yield metrics_event(sequence, sequence)

        self.fake.answers["WatchJob"] = endless
        for event in self.client.watch("a"):
            if event.sequence == 3:
                break
        self.assertTrue(ended.wait(10))

    def test_wait_raises_for_a_failed_job(self):
        failed = job(state="FAILED", reason="out of memory")
        failed.failure.log_tail = "the last line"
        self.fake.answers["WatchJob"] = lambda r, c: iter(
            [S.WatchJobResponse(job=failed)]
        )
        self.fake.answers["GetJob"] = failed
        with self.assertRaises(comera.JobFailedError) as caught:
            self.client.wait("a")
        self.assertIn("the last line", str(caught.exception))
        self.assertEqual(caught.exception.job.state, "FAILED")
        self.assertEqual(self.client.wait("a", check=False).reason, "out of memory")

    def test_wait_has_a_limit(self):
        def quiet(request, context):
            yield S.WatchJobResponse(job=job())
            until_left(context)

        self.fake.answers["WatchJob"] = quiet
        start = time.monotonic()
        with self.assertRaises(comera.DeadlineExceededError):
            self.client.wait("a", timeout=0.3)
        self.assertLess(time.monotonic() - start, 15)

    def test_a_missing_job_is_not_waited_for(self):
        def missing(request, context):
            context.abort(Code.NOT_FOUND, "no such job")
            yield

        self.fake.answers["WatchJob"] = missing
        with self.assertRaises(comera.NotFoundError):
            list(self.client.watch("a"))

    def test_ctrl_c_ends_a_waiting_program_at_once(self):
        def quiet(request, context):
            yield S.WatchJobResponse(job=job())
            yield metrics_event(1, 1)
            until_left(context)

        self.fake.answers["WatchJob"] = quiet
        program = textwrap.dedent(
            f"""
            import comera
            client = comera.Client("{self.fake.address}")
            try:
                for event in client.watch("a"):
                    print(event.sequence, flush=True)
            except KeyboardInterrupt:
                print("left", flush=True)
                raise SystemExit(130)
            """
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        self.assertEqual(process.stdout.readline(), "1\n")
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("left\n", 130), err)
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(self.fake.requests("CancelJob"), [])


class LogTest(ClientTestCase):
    def test_every_byte_once_across_disconnects(self):
        def piece(offset, data):
            return S.ReadLogResponse(offset=offset, data=data, attempt=3)

        def broken(request, context):
            yield piece(0, b"one\ntw")
            context.abort(Code.UNAVAILABLE, "restart")

        def resumed(request, context):
            self.assertEqual((request.offset, request.attempt), (6, 3))
            yield piece(4, b"two\nthree")

        self.fake.answers["ReadLog"] = [broken, resumed]
        lines = list(self.client.logs("a", follow=True))
        self.assertEqual(lines, ["one", "two", "three"])


if __name__ == "__main__":
    unittest.main()
