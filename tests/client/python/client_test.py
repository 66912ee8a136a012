"""The client against a coordinator that fails in every way."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import grpc

import comera
from comera._proto import access_service_pb2, queue_service_pb2, sweep_service_pb2
from fake_server import FakeServer, S, error, job, metrics_event, state_event

Code = grpc.StatusCode

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
        self.assertLess(time.monotonic() - start, 5)

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
            threading.Event().wait(3)

        self.fake.answers["WatchJob"] = quiet
        start = time.monotonic()
        with self.assertRaises(comera.DeadlineExceededError):
            self.client.wait("a", timeout=0.3)
        self.assertLess(time.monotonic() - start, 3)

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
            threading.Event().wait(20)

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
        out, err = process.communicate(timeout=10)
        self.assertEqual((out, process.returncode), ("left\n", 130), err)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(self.fake.requests("CancelJob"), [])


class LogTest(ClientTestCase):
    def test_every_byte_once_across_disconnects(self):
        def piece(offset, data):
            return S.ReadLogResponse(offset=offset, data=data, epoch=3)

        def broken(request, context):
            yield piece(0, b"one\ntw")
            context.abort(Code.UNAVAILABLE, "restart")

        def resumed(request, context):
            self.assertEqual((request.offset, request.epoch), (6, 3))
            yield piece(4, b"two\nthree")

        self.fake.answers["ReadLog"] = [broken, resumed]
        lines = list(self.client.logs("a", follow=True))
        self.assertEqual(lines, ["one", "two", "three"])


class ListTest(ClientTestCase):
    def test_pages_come_as_they_are_read(self):
        self.fake.answers["ListJobs"] = [
            S.ListJobsResponse(jobs=[job("jobs/a"), job("jobs/b")], next_page_token="t"),
            S.ListJobsResponse(jobs=[job("jobs/c")]),
        ]
        jobs = self.client.list("running", queue="q", labels={"k": "v"}, text="x")
        self.assertEqual(self.fake.calls, [])
        self.assertEqual(next(jobs).name, "jobs/a")
        self.assertEqual(len(self.fake.calls), 1)
        self.assertEqual([j.name for j in jobs], ["jobs/b", "jobs/c"])
        first, second = self.fake.requests("ListJobs")
        self.assertEqual(list(first.states), [3])
        self.assertEqual((first.queue, first.labels["k"], first.text), ("q", "v", "x"))
        self.assertEqual(first.view, S.JOB_VIEW_BASIC)
        self.assertEqual(second.page_token, "t")

    def test_limit_and_bad_states(self):
        self.fake.answers["ListJobs"] = S.ListJobsResponse(
            jobs=[job("jobs/a"), job("jobs/b")], next_page_token="t"
        )
        self.assertEqual(len(list(self.client.list(limit=1))), 1)
        with self.assertRaises(comera.ConfigError):
            list(self.client.list(states=["SLEEPING"]))

    def test_a_page_token_that_repeats_ends_the_list(self):
        self.fake.answers["ListJobs"] = S.ListJobsResponse(next_page_token="t")
        with self.assertRaises(comera.InternalError):
            list(self.client.list())

    def test_queues_and_workers(self):
        self.fake.answers["ListQueues"] = queue_service_pb2.ListQueuesResponse(
            queues=[queue_service_pb2.Queue(name="queues/default")]
        )
        self.fake.answers["ListWorkers"] = S.ListWorkersResponse(
            workers=[S.WorkerSummary(name="workers/w")]
        )
        self.assertEqual([q.name for q in self.client.list_queues()], ["queues/default"])
        self.assertEqual([w.name for w in self.client.list_workers()], ["workers/w"])


class SeriesTest(ClientTestCase):
    def setUp(self):
        super().setUp()
        answer = S.JobSeries(last_sequence=9)
        answer.series.add(metric="loss", steps=[1, 2, 3], values=[3, 2, 1], wall_times=[0] * 3)
        answer.series.add(metric="validation_loss", steps=[2], values=[2.5], wall_times=[0])
        snapshot = answer.rank_snapshots.add(step=2)
        snapshot.layers.add(layer="head", layer_class="head", initial=[4, 5], current=[3, 2])
        self.fake.answers["ReadSeries"] = answer
        self.series = self.client.series("a", "loss", "validation_loss", max_points=50)

    def test_columns(self):
        (request,) = self.fake.requests("ReadSeries")
        self.assertEqual(list(request.metrics), ["loss", "validation_loss"])
        self.assertEqual(request.max_points, 50)
        self.assertEqual(self.series["loss"].values, [3, 2, 1])
        self.assertEqual(self.series["loss"].last, 1)
        self.assertEqual(
            self.series.columns(),
            {"step": [1, 2, 3], "loss": [3, 2, 1], "validation_loss": [None, 2.5, None]},
        )
        self.assertEqual(self.series.rank_columns()["rank"], [3, 2])
        self.assertIn("validation_loss", self.series._repr_html_())

    def test_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = self.series.to_pandas()
        self.assertEqual(list(frame.index), [1, 2, 3])
        self.assertEqual(frame["loss"].iloc[-1], 1)
        self.assertTrue(pandas.isna(frame["validation_loss"].iloc[0]))
        self.assertEqual(len(self.series.ranks_to_pandas()), 2)

    def test_plot(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        axes = self.series.plot()
        self.assertEqual(len(axes.lines), 2)


class SweepTest(ClientTestCase):
    def test_follows_to_the_end_and_plots_the_front(self):
        sweep = sweep_service_pb2.Sweep(name="sweeps/s", state=1)
        sweep.runs.add(index=0, label="seed=1", state=1)
        done = sweep_service_pb2.Sweep()
        done.CopyFrom(sweep)
        done.state = 3
        front = sweep_service_pb2.SweepFront(hypervolume_ratio=0.5)
        for size, loss in ((10, 2.0), (20, 1.0)):
            point = front.points.add(job="jobs/a", run=-1)
            point.point.size_parameters, point.point.validation_loss = size, loss

        def watch(request, context):
            yield sweep_service_pb2.WatchSweepResponse(sweep=sweep)
            event = sweep_service_pb2.SweepEvent(sequence=1)
            event.run.CopyFrom(sweep.runs[0])
            event.run.state = 3
            yield sweep_service_pb2.WatchSweepResponse(event=event)
            event = sweep_service_pb2.SweepEvent(sequence=2)
            event.state_change.state = 3
            yield sweep_service_pb2.WatchSweepResponse(event=event)

        self.fake.answers.update(
            CreateSweep=sweep, WatchSweep=watch, GetSweep=done, ComputeFront=front
        )
        submitted = self.client.submit_sweep({"sweep": {"grid": {"seeds": [1]}}})
        self.assertEqual(submitted.state, "ACTIVE")
        seen = []
        submitted.wait(on_event=lambda e: seen.append(submitted.runs[0].state))
        self.assertEqual(seen, [3, 3])
        self.assertEqual(submitted.state, "SUCCEEDED")
        points = submitted.front().points
        self.assertEqual([p.size_parameters for p in points], [10, 20])
        self.assertIsNone(points[0].run)
        self.assertIn("seed=1", submitted._repr_html_())
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        self.assertEqual(submitted.front().plot().get_xlabel(), "parameters")


class HtmlTest(unittest.TestCase):
    def test_names_are_escaped(self):
        shown = job(reason="<script>alert(1)</script>")
        html = comera.Job(None, shown)._repr_html_()
        self.assertNotIn("<script>", html)
        self.assertIn("&lt;script&gt;", html)


class LoginTest(ClientTestCase):
    def setUp(self):
        super().setUp()
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        os.environ["XDG_CONFIG_HOME"] = self.home.name
        self.addCleanup(os.environ.pop, "XDG_CONFIG_HOME", None)
        self.fake.answers["WhoAmI"] = access_service_pb2.WhoAmIResponse(user="ann")

    def _token(self):
        return self.fake.calls[-1][2].get("authorization")

    def test_what_is_stored_is_used_for_its_server_only(self):
        answer = comera.login(self.fake.address, token="comera_secret")
        self.assertEqual(answer.user, "ann")
        path = Path(self.home.name) / "comera" / "login.json"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        with comera.Client() as client:
            self.assertEqual(client.server, self.fake.address)
            client.whoami()
            self.assertEqual(self._token(), "Bearer comera_secret")
            self.assertNotIn("comera_secret", repr(client))
        with FakeServer() as other:
            other.answers["WhoAmI"] = access_service_pb2.WhoAmIResponse()
            with comera.Client(other.address) as client:
                client.whoami()
            self.assertNotIn("authorization", other.calls[-1][2])

    def test_nothing_is_stored_when_the_server_refuses(self):
        self.fake.answers["WhoAmI"] = lambda r, c: c.abort(Code.UNAUTHENTICATED, "no")
        with self.assertRaises(comera.UnauthenticatedError):
            comera.login(self.fake.address, token="comera_wrong")
        self.assertFalse((Path(self.home.name) / "comera").exists())

    def test_argument_before_environment_before_login(self):
        comera.login(self.fake.address, token="stored")
        os.environ["COMERA_TOKEN"] = "environment"
        self.addCleanup(os.environ.pop, "COMERA_TOKEN", None)
        with comera.Client() as client:
            client.whoami()
        self.assertEqual(self._token(), "Bearer environment")
        with comera.Client(token="argument") as client:
            client.whoami()
        self.assertEqual(self._token(), "Bearer argument")

    def test_a_token_file_is_read_again(self):
        path = Path(self.home.name) / "token"
        path.write_text("first\n")
        os.utime(path, ns=(1, 1))
        with comera.Client(self.fake.address, token_file=path) as client:
            client.whoami()
            self.assertEqual(self._token(), "Bearer first")
            path.write_text("second\n")
            client.whoami()
            self.assertEqual(self._token(), "Bearer second")
            path.unlink()
            client.whoami()
            self.assertEqual(self._token(), "Bearer second")

    def test_tokens_do_not_travel_in_the_clear(self):
        with self.assertRaisesRegex(comera.ConfigError, "unencrypted") as caught:
            comera.Client("example.com:7400", token="comera_secret")
        self.assertNotIn("comera_secret", str(caught.exception))
        comera.Client("example.com:7400", token="x", insecure_token=True).close()

    def test_settings_that_do_not_belong_together(self):
        for wrong in (
            {"cert": "c.pem"}, {"cert": "c.pem", "key": "k.pem"}, {"ca": "/nowhere"},
            {"token": "has space"}, {"token_file": "/nowhere"}, {"token": "x" * 600},
        ):
            with self.subTest(wrong), self.assertRaises(comera.ConfigError):
                comera.Client(self.fake.address, **wrong)


if __name__ == "__main__":
    unittest.main()
