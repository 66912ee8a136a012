"""Lists, figures and sweeps as the client gives them."""

import unittest

import comera
from client_case import ClientTestCase
from comera._proto import queue_service_pb2, sweep_service_pb2
from fake_server import S, job


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
        self.fake.answers["DeleteWorker"] = S.DeleteWorkerResponse()
        self.client.forget_worker("w")
        (request,) = self.fake.requests("DeleteWorker")
        self.assertEqual(request.name, "workers/w")


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


if __name__ == "__main__":
    unittest.main()
