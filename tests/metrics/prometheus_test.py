#!/usr/bin/python3
"""Metrics, alerts and the dashboard against a real Prometheus.

Starts a coordinator with TLS and tokens, a worker with a made-up GPU, and
Debian's Prometheus with deploy/prometheus/'s configuration (other addresses,
shorter intervals); runs jobs; then everything that deploy/ and docs/metrics.md
say about metrics must be in what was scraped, and the other way round.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

ROOT = os.getcwd()  # where Bazel starts tests
PROMETHEUS = "deploy/prometheus"

# The values of these are few by design (docs/metrics.md). Prometheus itself
# gives every series the labels job and instance.
LABELS = {
    "class", "code", "device", "gpu", "job_name", "kind", "le", "limit", "method",
    "outcome", "queue", "result", "service", "state", "target", "uuid",
    "version",
}
UNITS = ("_seconds", "_bytes", "_total", "_celsius", "_ratio", "_watts",
         "_joules", "_info")
WITHOUT_UNIT = {
    "comera_jobs", "comera_workers", "comera_slots", "comera_slots_busy",
    "comera_slots_unfit", "comera_leader", "comera_leader_epoch",
    "comera_read_only", "comera_mass_silence", "comera_webhook_waiting",
    "comera_rpc_streams_open", "comera_store_commit_writes",
    "comera_worker_ranks", "comera_worker_slots", "comera_worker_job_step",
    "comera_worker_members_confined",
    "comera_worker_job_samples_per_second",
    "comera_worker_job_tokens_per_second",
    "comera_worker_coordinator_connected", "comera_gpu_unfit",
    "comera_gpu_uncorrected_ecc_errors", "process_threads",
    "process_open_fds", "process_max_fds",
}
# Metrics that need hardware which tests do not have, or other jobs.
SOMETIMES = {
    "comera_worker_job_energy_joules", "comera_worker_job_tokens_per_second",
    "comera_worker_job_model_flops_ratio",
}
SMALL_JOB = """
display_name: small
model:
  family: dlrm
  dlrm: {bottom_mlp: [16, 8], top_mlp: [16, 1], compressed_tables: 1}
data:
  synthetic_clicks:
    {train_rows: 20000, validation_rows: 200, seed: 7, table_rows: [2000, 50]}
compression:
  table: {input_modes: [20, 100], output_modes: [2, 4], ranks: 3}
objective:
  early: {steps: STEPS, gamma: 0.0}
optimizer:
  {learning_rate_cores: 0.003, learning_rate_ranks: 0.001,
   learning_rate_other: 0.001}
training: {batch_size: 64, seed: 1, report_every_steps: 50,
           validate_every_steps: 100000}
resources: {device: cpu, processes: RANKS, threads_per_process: 1}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def free_port():
    """Below those from which the system chooses for everybody's connections, so
    that it is not gone before it is bound."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def parse(text):
    """Families of a scrape: name -> (type, help, label names)."""
    families = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, rest = line.split(" ", 3)
            families[name] = ["", rest, set()]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            families[name][0] = kind
        elif line:
            name = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line).group()
            if name not in families:
                name = re.sub(r"_(bucket|sum|count)$", "", name)
            families[name][2].update(re.findall(r'[{,]([a-z_]+)="', line))
    return families


def series(families):
    """Names of series as queries see them."""
    names = set()
    for name, (kind, _, _) in families.items():
        if kind == "histogram":
            names.update(name + end for end in ("_bucket", "_sum", "_count"))
        else:
            names.add(name)
    return names


def used_names(expression):
    text = re.sub(r'"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:comera|process)_[a-z0-9_]+", text))


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.processes = []
        try:
            cls.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for process in reversed(cls.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(cls.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if sys.exc_info()[0] is not None:
            cls.show_logs()
        shutil.rmtree(cls.folder)

    @classmethod
    def show_logs(cls):
        for name in sorted(os.listdir(cls.folder)):
            if name.endswith(".log"):
                print("==", name, "\n", read(cls.path(name))[-3000:],
                      file=sys.stderr)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.folder, *parts)

    @classmethod
    def launch(cls, name, *arguments, **environment):
        with open(cls.path(name + ".log"), "wb") as log:
            process = subprocess.Popen(
                arguments, stdout=log, stderr=log, cwd=cls.folder,
                env={**os.environ, "HOME": cls.folder, **environment})
        cls.processes.append(process)
        return process

    @classmethod
    def wait(cls, what, look, seconds=40):
        end = time.monotonic() + seconds
        while True:
            try:
                found = look()
            except OSError:
                found = None
            if found:
                return found
            if time.monotonic() > end:
                cls.show_logs()
                raise AssertionError("no " + what)
            time.sleep(0.1)

    @classmethod
    def program(cls, path):
        # The worker looks for the trainer beside itself.
        to = cls.path("bin", os.path.basename(path))
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), to)
        os.chmod(to, 0o755)
        return to

    @classmethod
    def comera(cls, *arguments, check=True, text=None):
        result = subprocess.run(
            [cls.cli, "--server", cls.address, "--ca", cls.ca, *arguments],
            input=text, capture_output=True, text=True, cwd=cls.folder,
            env={**os.environ, "HOME": cls.folder, "NO_COLOR": "1",
                 "COMERA_TOKEN_FILE": cls.path("admin.token")})
        if check and result.returncode != 0:
            raise AssertionError(f"{arguments}: {result.stderr}")
        return result.stdout

    @classmethod
    def submit(cls, steps, ranks):
        with open(cls.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write(SMALL_JOB.replace("STEPS", str(steps)).replace(
                "RANKS", str(ranks)))
        return json.loads(
            cls.comera("submit", cls.path("job.yaml"), "-o", "json"))["name"]

    @classmethod
    def start(cls):
        subprocess.run([os.path.join(ROOT, "deploy/tls.sh"), cls.path("tls"),
                        "--server=localhost,127.0.0.1"], check=True,
                       capture_output=True)
        current = cls.path("tls", "localhost", "current")
        cls.ca = cls.path("tls", "ca", "ca.pem")
        cls.cli = cls.program("client/comera")
        server = cls.program("server/comera-server")
        worker = cls.program("worker/comera-worker")
        cls.program("worker/trainer/comera-trainer")
        with open(cls.path("webhook.key"), "w", encoding="utf-8") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write("a key of at least 24 bytes")
        cls.launch(
            "server", server, "--listen=127.0.0.1:0", "--data_dir=state",
            # Nobody listens there.
            "--webhook_url=https://127.0.0.1:9/", "--webhook_key_file=webhook.key",
            "--port_file=port", "--http_listen=127.0.0.1:0",
            "--http_port_file=http_port", f"--tls_cert={current}/cert.pem",
            f"--tls_key={current}/key.pem",
            "--init_admin_token_file=admin.token")
        cls.address = cls.wait("coordinator", lambda: read(cls.path("port")))
        cls.address = cls.address.strip()
        cls.http = cls.wait("HTTP port",
                            lambda: read(cls.path("http_port"))).strip()
        for name, options in (("viewer", ["--role", "viewer"]),
                              ("worker", ["--worker", "--worker-name", "w1"])):
            with open(cls.path(name + ".token"), "w",
                      encoding="utf-8") as file:
                file.write(cls.comera("token", "create", "--name", name,
                                      *options))
        os.makedirs(cls.path("nvml"))
        shutil.copy(os.path.join(ROOT, "tests/fakes/nvml/libfake_nvml.so"),
                    cls.path("nvml", "libnvidia-ml.so.1"))
        cls.worker = cls.launch(
            "worker", worker, f"--server={cls.address}", f"--ca={cls.ca}",
            "--token_file=worker.token", "--name=w1", "--slots=2", "--gpus=1",
            "--member_lease=0", "--data_dir=w1", "--metrics_listen=127.0.0.1:0",
            LD_LIBRARY_PATH=cls.path("nvml"), FAKE_NVML_GPUS="1")
        cls.worker_http = cls.wait(
            "worker's port", lambda: re.search(
                r"metrics served address=(\S+)",
                read(cls.path("worker.log")))).group(1)

        # One job that ends, one that runs, one that waits.
        done = cls.submit(200, 1)
        cls.comera("wait", done)
        cls.comera("watch", done)
        cls.running = cls.submit(100000000, 1)
        cls.submit(100, 64)
        cls.wait("running job", lambda: cls.running in cls.scrape(
            "http://" + cls.worker_http + "/metrics"))
        # The store's size and a job's wait come with ticks.
        cls.wait("store size", lambda: "comera_store_bytes" in
                 cls.scrape_coordinator())
        cls.start_prometheus()

    @classmethod
    def start_prometheus(cls):
        config = read(PROMETHEUS + "/prometheus.yml")
        for old, new in (
                ("coordinator1.example:7480, coordinator2.example:7480",
                 cls.http), ("interval: 15s", "interval: 1s"),
                ("credentials_file: token",
                 "credentials_file: viewer.token"),
                ("ca_file: ca.pem", f"ca_file: {cls.ca}")):
            if old not in config:
                raise AssertionError(f"prometheus.yml has no {old!r}")
            config = config.replace(old, new)
        with open(cls.path("prometheus.yml"), "w", encoding="utf-8") as file:
            file.write(config)
        shutil.copy(PROMETHEUS + "/comera_alerts.yml", cls.folder)
        os.makedirs(cls.path("workers"))
        with open(cls.path("workers", "all.json"), "w",
                  encoding="utf-8") as file:
            json.dump([{"targets": [cls.worker_http],
                        "labels": {"rack": "a"}}], file)
        cls.api = f"http://127.0.0.1:{free_port()}"
        cls.launch(
            "prometheus", "prometheus", "--config.file=prometheus.yml",
            "--storage.tsdb.path=tsdb",
            "--web.listen-address=" + cls.api.removeprefix("http://"))

        def all_up():
            targets = cls.ask("targets")["activeTargets"]
            return len(targets) == 2 and all(
                one["health"] == "up" for one in targets)

        cls.wait("scraped targets", all_up)

    @classmethod
    def scrape(cls, url, token=None):
        request = urllib.request.Request(url)
        if token is not None:
            request.add_header("Authorization", "Bearer " + token)
        context = ssl.create_default_context(cafile=cls.ca)
        with urllib.request.urlopen(
                request, timeout=10,
                context=context if url.startswith("https") else None) as answer:
            return answer.read().decode()

    @classmethod
    def scrape_coordinator(cls):
        return cls.scrape("https://" + cls.http + "/metrics",
                          read(cls.path("viewer.token")).strip())

    @classmethod
    def ask(cls, what, **parameters):
        url = f"{cls.api}/api/v1/{what}?" + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(url, timeout=10) as answer:
            reply = json.load(answer)
        if reply["status"] != "success":
            raise AssertionError(f"{what} {parameters}: {reply}")
        return reply["data"]

    def promtool(self, *arguments, text=None):
        result = subprocess.run(["promtool", *arguments], input=text,
                                capture_output=True, text=True,
                                cwd=self.folder)
        self.assertEqual(result.returncode, 0,
                         f"{arguments}: {result.stdout}{result.stderr}")
        return result.stdout + result.stderr

    def families(self):
        coordinator = parse(self.scrape_coordinator())
        worker = parse(self.scrape("http://" + self.worker_http + "/metrics"))
        # What the library tells of its port is its own.
        return {name: family for name, family in
                {**coordinator, **worker}.items()
                if not name.startswith("exposer_")}

    def test_scrapes_follow_the_conventions(self):
        for text in (self.scrape_coordinator(),
                     self.scrape("http://" + self.worker_http + "/metrics")):
            self.assertEqual(self.promtool("check", "metrics", text=text), "")
        for name, (kind, text, labels) in self.families().items():
            self.assertRegex(name, r"^(comera|process)_[a-z_]+$")
            self.assertTrue(text, name)
            self.assertEqual(kind == "counter", name.endswith("_total"), name)
            self.assertTrue(name.endswith(UNITS) or name in WITHOUT_UNIT, name)
            self.assertLessEqual(labels, LABELS, name)
            if "job_name" in labels:
                self.assertTrue(name.startswith("comera_worker_job_"), name)

    def test_only_users_see_the_coordinators(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.scrape("https://" + self.http + "/metrics")
        self.assertEqual(refused.exception.code, 401)

    def test_figures_are_those_of_the_jobs(self):
        def value(query):
            result = self.ask("query", query=query)["result"]
            return float(result[0]["value"][1]) if result else None

        self.assertEqual(value("comera_leader"), 1)
        self.assertEqual(
            value('comera_jobs{queue="default",state="SUCCEEDED"}'), 1)
        self.assertEqual(
            value('comera_jobs{queue="default",state="QUEUED"}'), 1)
        self.assertEqual(
            value('comera_jobs_accepted_total{queue="default"}'), 3)
        self.assertEqual(value("comera_job_queue_wait_seconds_count"), 2)
        self.assertGreater(value("comera_queue_oldest_wait_seconds"), 0)
        self.assertEqual(value('comera_slots_busy{device="cpu"}'), 1)
        self.assertEqual(value('comera_slots{device="gpu"}'), 1)
        self.assertEqual(value('comera_workers{service="IN_SERVICE"}'), 1)
        self.assertEqual(
            value('comera_rpc_seconds_count{method='
                  '"TrainingService.CreateJob",code="OK"}'), 3)
        self.assertGreater(value("comera_store_bytes"), 0)
        self.assertEqual(value("comera_worker_ranks"), 1)
        self.assertEqual(value('comera_worker_coordinator_connected'
                               '{rack="a"}'), 1)
        self.assertGreater(value("comera_gpu_temperature_celsius"), 0)
        self.assertEqual(
            value(f'count(comera_worker_job_step{{job_name="{self.running}"'
                  '})'), 1)

    def test_alerts_are_right_and_evaluated(self):
        self.promtool("check", "config", "prometheus.yml")
        self.promtool("check", "rules", "comera_alerts.yml")
        shutil.copy(PROMETHEUS + "/comera_alerts_test.yml", self.folder)
        self.promtool("test", "rules", "comera_alerts_test.yml")
        self.wait("evaluated rules", lambda: all(
            rule["health"] == "ok" for group in self.ask("rules")["groups"]
            for rule in group["rules"]))
        names = series(self.families()) | {"up"}
        tested = read(PROMETHEUS + "/comera_alerts_test.yml")
        page = read("docs/metrics.md")
        rules = [rule for group in self.ask("rules")["groups"]
                 for rule in group["rules"]]
        self.assertGreaterEqual(len(rules), 15)
        for rule in rules:
            self.assertEqual(rule["type"], "alerting")
            self.assertIn("severity", rule["labels"])
            self.assertIn("\n### " + rule["name"] + "\n", page)
            self.assertEqual(tested.count("alertname: " + rule["name"] + "\n"),
                             2, rule["name"])
            self.assertLessEqual(used_names(rule["query"]), names)
            self.assertNotEqual(rule["state"], "firing", rule)
        for name in re.findall(r"^### (\w+)$", page, re.M):
            self.assertIn(name, [rule["name"] for rule in rules])

    def test_kubernetes_file_is_right_but_for_its_discovery(self):
        # Debian's Prometheus is built without it.
        text = read(PROMETHEUS + "/kubernetes_scrape.yml")
        discovery = "    kubernetes_sd_configs:\n      - role: pod\n"
        self.assertEqual(text.count(discovery), 2)
        with open(self.path("kubernetes.yml"), "w", encoding="utf-8") as file:
            file.write(text.replace(
                discovery, "    static_configs:\n      - targets: [a:1]\n"))
        for name in ("token", "ca.pem"):
            shutil.copy(self.ca, self.path(name))
        self.promtool("check", "config", "kubernetes.yml")

    def test_dashboard_asks_for_what_there_is(self):
        board = json.loads(read("deploy/grafana/comera.json"))
        self.assertGreaterEqual(board["schemaVersion"], 36)
        for key in ("title", "uid", "time", "templating"):
            self.assertIn(key, board)
        names = series(self.families())
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertLess(x, 24)
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken.add((x, y))
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "1m")
                self.assertLessEqual(used_names(query), names, panel["title"])
                self.ask("query", query=query)

    def test_page_lists_all_metrics(self):
        page = read("docs/metrics.md").split("\n## Alerts\n")[0]
        rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]*)\|", page, re.M))
        families = self.families()
        self.assertLessEqual(SOMETIMES, set(rows))
        self.assertEqual(sorted(set(rows) - SOMETIMES),
                         sorted(set(families) - SOMETIMES))
        for name, (_, _, labels) in families.items():
            told = {one.strip() for one in rows[name].split(",")} - {""}
            if name.startswith("comera_gpu_"):
                told = {"gpu", "uuid"}
            self.assertEqual(labels - {"le"}, told, name)

    # The last by name: it ends the worker.
    def test_z_lost_worker_is_an_alert(self):
        self.worker.send_signal(signal.SIGKILL)

        def pending():
            return any(alert["labels"]["alertname"] == "ComeraWorkerDown"
                       for alert in self.ask("alerts")["alerts"])

        self.wait("alert", pending)


if __name__ == "__main__":
    for tool in ("prometheus", "promtool"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing: deploy/install_deps.sh --tests")
    unittest.main(verbosity=2)
