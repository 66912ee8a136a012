"""Models that workers answer with."""

import socket
import threading
import unittest

import grpc

import comera
from client_case import ClientTestCase
from comera._proto import model_service_pb2
from comera._proto import predict_service_pb2 as P
from fake_server import FakeServer, S

Code = grpc.StatusCode


class ServingTest(ClientTestCase):
    def setUp(self):
        super().setUp()
        self.worker = FakeServer()
        self.addCleanup(self.worker.stop)
        self.fake.answers["GetModel"] = lambda r, c: model_service_pb2.Model(name=r.name)
        self.workers(self.worker.address)
        self.worker.answers["LoadModel"] = lambda r, c: P.ServedModel(
            name=r.name, labels=["no", "yes"], max_rows=3
        )
        self.worker.answers["Predict"] = lambda r, c: P.PredictResponse(
            predictions=[P.Prediction(label=row.text + "|" + row.text_pair) for row in r.rows]
        )

    def workers(self, *addresses, host=None):
        self.fake.answers["ListWorkers"] = S.ListWorkersResponse(
            workers=[
                S.WorkerSummary(
                    name=f"workers/w{i}", connected=True, peer_address=address,
                    host=host or socket.gethostname(),
                )
                for i, address in enumerate(addresses)
            ]
        )

    def model(self):
        return self.client.get_model("jobs/a/models/m")

    def test_every_row_is_answered_in_order(self):
        served = self.model().serve()
        self.assertEqual((served.worker, served.labels), ("workers/w0", ["no", "yes"]))
        rows = ["a", ("b", "c"), {"text": "d"}, P.PredictRow(text="e"), "f", "g", "h"]
        answers = served.predict(rows, top_k=2, logits=True)
        self.assertEqual(
            [a.label for a in answers], ["a|", "b|c", "d|", "e|", "f|", "g|", "h|"]
        )
        requests = self.worker.requests("Predict")
        self.assertEqual([len(r.rows) for r in requests], [3, 3, 1])
        self.assertEqual((requests[0].top_k, requests[0].logits), (2, True))
        self.assertEqual(served.predict([]), [])

    def test_another_worker_takes_over_when_loading(self):
        with FakeServer() as full:
            full.answers["LoadModel"] = lambda r, c: c.abort(
                Code.RESOURCE_EXHAUSTED, "too many models"
            )
            self.workers("", "127.0.0.1:1", full.address, self.worker.address)
            served = self.model().serve()
            self.assertEqual(served.worker, "workers/w3")
            with self.assertRaises(comera.ResourceExhaustedError):
                self.model().serve("w2")

    def test_no_other_worker_is_asked_in_vain(self):
        self.worker.answers["LoadModel"] = lambda r, c: c.abort(Code.NOT_FOUND, "no")
        self.workers(self.worker.address, self.worker.address)
        with self.assertRaises(comera.NotFoundError):
            self.model().serve()
        self.assertEqual(len(self.worker.requests("LoadModel")), 1)
        self.workers()
        with self.assertRaisesRegex(comera.NotFoundError, "serves models"):
            self.model().serve()
        self.workers(self.worker.address, host="elsewhere")
        with self.assertRaisesRegex(comera.UnavailableError, "its machine only"):
            self.model().serve()

    def test_a_busy_worker_is_asked_again(self):
        def busy(request, context):
            context.abort(Code.UNAVAILABLE, "child restarts")

        answer = self.worker.answers["Predict"]
        self.worker.answers["Predict"] = [busy, answer]
        served = self.model().serve()
        self.assertEqual(served.predict(["a"])[0].label, "a|")
        self.worker.answers["Predict"] = lambda r, c: c.abort(
            Code.FAILED_PRECONDITION, "cannot"
        )
        with self.assertRaises(comera.FailedPreconditionError):
            served.predict(["a"])

    def test_a_text_comes_in_pieces(self):
        self.worker.answers["Generate"] = lambda r, c: iter(
            [
                P.GenerateResponse(text=r.prompt),
                P.GenerateResponse(text="!", finish=P.GenerateResponse.STOP),
            ]
        )
        served = self.model().serve()
        pieces = list(
            served.generate("Say:", max_tokens=5, temperature=0, top_k=2, seed=7, stop=["a"])
        )
        self.assertEqual([p.text for p in pieces], ["Say:", "!"])
        self.assertEqual(pieces[-1].finish, P.GenerateResponse.STOP)
        (request,) = self.worker.requests("Generate")
        self.assertEqual(request.name, "jobs/a/models/m")
        self.assertEqual(
            (request.max_tokens, request.temperature, request.top_k, request.seed),
            (5, 0, 2, 7),
        )
        self.assertTrue(request.HasField("temperature"))
        self.assertFalse(request.HasField("top_p"))
        self.assertEqual(list(request.stop), ["a"])

    def test_a_text_that_fails_raises(self):
        def fails(request, context):
            yield P.GenerateResponse(text="half")
            context.abort(Code.INVALID_ARGUMENT, "top_k: no")

        self.worker.answers["Generate"] = fails
        texts = self.model().serve().generate("x")
        self.assertEqual(next(texts).text, "half")
        with self.assertRaisesRegex(comera.InvalidArgumentError, "top_k"):
            next(texts)

    def test_who_closes_the_iterator_ends_the_text(self):
        ended = threading.Event()

        def endless(request, context):
            context.add_callback(ended.set)
            while context.is_active():
                yield P.GenerateResponse(text="x")

        self.worker.answers["Generate"] = endless
        texts = self.model().serve().generate("x")
        next(texts)
        texts.close()
        self.assertTrue(ended.wait(20))

    def test_tokens_do_not_travel_in_the_clear(self):
        self.workers("192.0.2.1:7500")
        with comera.Client(self.fake.address, token="comera_secret") as client:
            with self.assertRaisesRegex(comera.ConfigError, "unencrypted"):
                client.get_model("jobs/a/models/m").serve()
        self.workers(self.worker.address)
        with comera.Client(self.fake.address, token="comera_secret") as client:
            client.get_model("jobs/a/models/m").serve()
        self.assertEqual(
            self.worker.calls[-1][2]["authorization"], "Bearer comera_secret"
        )


if __name__ == "__main__":
    unittest.main()
