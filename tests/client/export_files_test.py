#!/usr/bin/python3
"""comera export writes what TensorBoard and MLflow read: the files are taken
apart here by code that shares nothing with the program, CRCs and protobuf's
wire format included. (TensorBoard and MLflow are no Debian packages.)"""
import http.server
import json
import os
import struct
import subprocess
import threading
import unittest

TMP = os.environ["TEST_TMPDIR"]
COMERA = os.path.abspath("client/comera")
SERVER = os.path.abspath("tests/client/fake_server")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (crc,) = struct.unpack_from("<I", data, at + 8)
        assert crc == masked(data[at:at + 8]), "CRC of a length"
        record = data[at + 12:at + 12 + length]
        (crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert crc == masked(record), "CRC of a record"
        yield record
        at += 16 + length


def fields(message):
    """Yields (number, value): int, or bytes for what has a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        elif kind == 1:
            yield tag >> 3, message[at:at + 8]
            at += 8
        elif kind == 5:
            yield tag >> 3, message[at:at + 4]
            at += 4
        elif kind == 2:
            length = varint()
            yield tag >> 3, message[at:at + length]
            at += length
        else:
            raise AssertionError("wire type %d" % kind)


def one(message, number, default=None):
    for field, value in fields(message):
        if field == number:
            return value
    return default


def double(data):
    return struct.unpack("<d", data)[0] if data else 0.0


def read_events(path):
    """As TensorBoard keeps them: {tag: [(step, value)]}, restarts obeyed."""
    series, plugins, versions = {}, {}, []
    for record in records(path):
        step = one(record, 2, 0)
        session = one(record, 7)
        if session is not None and one(session, 1) == 1:  # START
            for tag in series:
                series[tag] = [p for p in series[tag] if p[0] < step]
        version = one(record, 3)
        if version is not None:
            versions.append(version)
        for number, value in fields(one(record, 5, b"")):
            assert number == 1
            tag = one(value, 1).decode()
            simple, histogram, tensor = one(value, 2), one(value, 5), one(value, 8)
            if simple is not None:
                series.setdefault(tag, []).append(
                    (step, struct.unpack("<f", simple)[0]))
            elif histogram is not None:
                limits = struct.iter_unpack("<d", one(histogram, 6))
                counts = struct.iter_unpack("<d", one(histogram, 7))
                series.setdefault(tag, []).append(
                    (step, [(l[0], c[0]) for l, c in zip(limits, counts)]))
            else:
                plugin = one(one(value, 9), 1)
                plugins.setdefault(tag, []).append(
                    (one(plugin, 1).decode(), one(plugin, 2), tensor))
    return series, plugins, versions


class Server:
    """A server that keeps the JSON that it is sent."""

    def __init__(self):
        # Its answer to everything.
        self.code = 200
        self.bodies = []
        self.paths = []

    def __enter__(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                collector.bodies.append(json.loads(self.rfile.read(length)))
                collector.paths.append(self.path)
                self.send_response(collector.code)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def do_GET(self):
                collector.paths.append(self.path)
                self.send_response(collector.code)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = os.path.join(TMP, "data")
        os.makedirs(cls.data, exist_ok=True)
        cls.server = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", "--data_dir=" + cls.data,
             "--port_file=" + os.path.join(TMP, "port")],
            stderr=subprocess.PIPE, text=True)
        cls.address = cls.server.stderr.readline().split()[-1]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.server.stderr.close()

    def told(self, count):
        path = os.path.join(self.data, "told")
        if count is None:
            if os.path.exists(path):
                os.remove(path)
            return
        with open(path + ".new", "w") as file:
            file.write(str(count))
        os.rename(path + ".new", path)

    def export(self, *arguments, code=0):
        done = subprocess.run(
            [COMERA, "export", "--server", self.address, *arguments],
            capture_output=True, text=True, cwd=TMP, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def event_file(self, folder):
        return os.path.join(TMP, folder, "done",
                            "events.out.tfevents.1700000000.comera")

    def test_tensorboard(self):
        self.told(None)
        self.export("done", "--format", "tensorboard", "--to", "runs")
        series, plugins, versions = read_events(self.event_file("runs"))
        self.assertEqual(versions, [b"brain.Event:2"])
        # Steps 40 and 50 are those of the second attempt.
        self.assertEqual([s for s, _ in series["loss/training"]],
                         [10, 20, 30, 40, 50])
        for (_, got), wanted in zip(series["loss/training"],
                                    [5.8, 5.6, 5.4, 4.95, 4.75]):
            self.assertAlmostEqual(got, wanted, places=5)
        self.assertEqual([s for s, _ in series["loss/validation"]], [20, 40])
        self.assertEqual(series["size/parameters"][-1], (50, 500.0))
        self.assertEqual(series["bonds/encoder.0.query/3"][0], (10, 9.0))
        step, buckets = series["ranks/encoder.0.query"][-1]
        self.assertEqual(step, 50)
        self.assertEqual([c for _, c in buckets], [1, 1, 0, 1])  # 5, 6, 8
        self.assertEqual(series["rank/attention"][-1][0], 50)
        self.assertIn(b"layers: 2", plugins["job/file"][0][2])
        self.assertIn(b"node-1 is gone", plugins["job/incidents"][0][2])
        kind, content, _ = plugins["_hparams_/session_start_info"][0]
        self.assertEqual(kind, "hparams")
        hparams = {}
        for number, entry in fields(one(content, 3)):
            if number == 1:
                hparams[one(entry, 1).decode()] = one(entry, 2)
        self.assertEqual(double(one(hparams["model.layers"], 2)), 2)
        self.assertEqual(one(hparams["labels.team"], 3), b"nlp")
        self.assertIn("_hparams_/session_end_info", plugins)

    def test_opentelemetry(self):
        self.told(None)
        with Server() as collector:
            for _ in range(2):
                self.export("done", "--format", "otlp", "--to", collector.url)
            collector.code = 400
            said = self.export("done", "--format", "otlp", "--to",
                               collector.url, code=1)
            self.assertIn("the collector answers 400", said)
        said = self.export("done", "--format", "otlp", "--to", "runs", code=2)
        self.assertIn("http://HOST:4318", said)
        first, second, _ = collector.bodies
        self.assertEqual(first, second)
        self.assertEqual(set(collector.paths), {"/v1/traces"})
        [resource] = first["resourceSpans"]
        self.assertIn({"key": "service.name",
                       "value": {"stringValue": "comera"}},
                      resource["resource"]["attributes"])
        [scope] = resource["scopeSpans"]
        job, *phases = scope["spans"]
        self.assertNotIn("parentSpanId", job)
        self.assertRegex(job["traceId"], "^[0-9a-f]{32}$")
        self.assertTrue(phases)
        ids = {job["spanId"]}
        for phase in phases:
            self.assertRegex(phase["spanId"], "^[0-9a-f]{16}$")
            self.assertEqual(phase["parentSpanId"], job["spanId"])
            self.assertEqual(phase["traceId"], job["traceId"])
            self.assertLessEqual(int(phase["startTimeUnixNano"]),
                                 int(phase["endTimeUnixNano"]))
            ids.add(phase["spanId"])
        self.assertEqual(len(ids), len(phases) + 1)
        incidents = [event for phase in phases for event in phase["events"]
                     if event["name"] == "incident"]
        self.assertIn("node-1 is gone", json.dumps(incidents))

    def test_an_mlflow_server_is_reached(self):
        # What is sent is checked by mlflow_server_test.
        self.told(None)
        with Server() as server:
            server.code = 401
            said = self.export("done", "--format", "mlflow", "--to",
                               server.url, code=1)
        self.assertIn(server.url, said)
        self.assertTrue(server.paths)
        for path in server.paths:
            self.assertTrue(path.startswith("/api/2.0/mlflow/"), path)

    def test_tensorboard_goes_on_where_it_stopped(self):
        self.told(7)
        self.export("done", "--format", "tensorboard", "--to", "live")
        part = read_events(self.event_file("live"))[0]
        self.assertEqual([s for s, _ in part["loss/training"]], [10, 20, 30])
        self.export("done", "--format", "tensorboard", "--to", "live")
        self.assertEqual(read_events(self.event_file("live"))[0], part)
        # A crash while writing: what is behind the known part goes.
        with open(self.event_file("live"), "ab") as file:
            file.write(b"half a record")
        self.told(None)
        self.export("done", "--format", "tensorboard", "--to", "live",
                    "--follow")
        self.export("done", "--format", "tensorboard", "--to", "straight")
        with open(self.event_file("live"), "rb") as file:
            live = file.read()
        with open(self.event_file("straight"), "rb") as file:
            self.assertEqual(live, file.read())

    def test_mlflow(self):
        self.told(None)
        for _ in range(2):  # the second replaces the first
            self.export("jobs/done", "--format", "mlflow", "--to", "mlruns")
        experiment = os.path.join(TMP, "mlruns", "0")
        runs = [r for r in os.listdir(experiment) if r != "meta.yaml"]
        self.assertEqual(len(runs), 1)
        run = os.path.join(experiment, runs[0])
        self.assertRegex(runs[0], "^[0-9a-f]{32}$")

        def text(*path):
            with open(os.path.join(run, *path)) as file:
                return file.read()

        self.assertEqual(sorted(os.listdir(run)),
                         ["artifacts", "meta.yaml", "metrics", "params", "tags"])
        meta = dict(line.split(": ", 1)
                    for line in text("meta.yaml").splitlines())
        self.assertEqual(meta["status"], "3")
        self.assertEqual(meta["start_time"], "1700000001000")
        self.assertEqual(meta["end_time"], "1700000100000")
        self.assertEqual(meta["run_name"], "'night \"run\"'")
        self.assertEqual(meta["run_id"].strip("'"), runs[0])
        self.assertEqual(meta["artifact_uri"].strip("'"),
                         "file://" + os.path.join(run, "artifacts"))
        self.assertEqual(text("params", "model.layers"), "2")
        self.assertEqual(text("tags", "mlflow.user"), "alice")
        self.assertEqual(text("tags", "team"), "nlp")
        points = [line.split() for line in
                  text("metrics", "loss", "training").splitlines()]
        self.assertEqual([p[2] for p in points], ["10", "20", "30", "40", "50"])
        self.assertAlmostEqual(float(points[-1][1]), 4.75)
        self.assertGreater(int(points[0][0]), 1700000000000)
        self.assertEqual(text("artifacts", "final", "model.safetensors"),
                         "weights")
        self.assertIn("flavors:\n  comera:", text("artifacts", "final", "MLmodel"))
        self.assertIn("layers: 2", text("artifacts", "job.yaml"))
        history = json.loads(text("tags", "mlflow.log-model.history"))
        self.assertEqual(history[0]["artifact_path"], "final")
        self.assertEqual(history[0]["run_id"], runs[0])

    def test_errors(self):
        self.told(None)
        self.export("jobs/lost", "--format", "tensorboard", "--to", "x", code=5)
        self.assertIn("--follow", self.export(
            "done", "--format", "mlflow", "--to", "x", "--follow", code=2))
        self.export("No_Name", "--format", "mlflow", "--to", "x", code=2)
        self.export("done", "--format", "csv", "--to", "x", code=2)
        self.export("done", "--format", "mlflow", code=2)
        self.assertFalse(os.path.exists(os.path.join(TMP, "x")))


if __name__ == "__main__":
    unittest.main()
