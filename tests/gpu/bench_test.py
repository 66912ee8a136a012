#!/usr/bin/env python3
"""bench.py and its report, on programs that are fake."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import bench  # noqa: E402
import bench_report  # noqa: E402

STEP = """#!/usr/bin/env python3
import json, sys
flags = dict(a[2:].partition("=")[::2] for a in sys.argv[1:])
method = flags["method"].upper()
if "operations" in flags:
    print(json.dumps({"model": flags["model"], "batch": int(flags["batch"]),
                      "precision": "BF16", "operations": [
                          {"name": "Gemm", "calls": 977, "seconds": 0.03,
                           "predicted_seconds": 0.02},
                          {"name": "Fill", "calls": 2, "seconds": 1e-5}]}))
    sys.exit()
if flags["model"] == "codebert_large":
    sys.exit("out of memory: 7 bytes are left")
for mode in flags["modes"].split(","):
    seconds = {"COMERA": 1, "DENSE": 4, "GALORE": 8}[method] * 1e-3
    if "overlap_launches" in flags:
        mode, seconds = mode + ", overlapped", seconds * 0.8
    print(json.dumps({"model": flags["model"], "method": method, "mode": mode,
                      "batch": int(flags["batch"]),
                      "precision": flags["precision"].upper(),
                      "step_seconds": seconds / (1 + mode.startswith("graph")),
                      "tokens_per_second": 1000,
                      "peak_device_bytes": int(seconds * 2**30)}))
"""
OPS = """#!/usr/bin/env python3
import json, sys
print(json.dumps({"context": {"precision": "bf16"}, "benchmarks": [
  {"name": "BM_Gemm/m:8/real_time", "real_time": 2000, "time_unit": "ns",
   "GFLOP/s": 400000.0},
  {"name": "BM_Gelu/backward:0/real_time", "real_time": 5, "time_unit": "us",
   "GB/s": 2000.0},
  {"name": "BM_Rows", "error_occurred": True, "error_message": "no rows"}]},
  indent=2))
"""
CEILINGS = """#!/bin/sh
echo 'a note of some library'
echo '{"device": "Fake H200", "multiprocessors": 132, "memory_bytes": 1073741824,
 "copy_bytes_per_second": 4e12, "flops": {"fp32": 5e13, "bf16": 8e14}}' | tr -d '\\n'
echo
"""
# Under the name python3 it claims to have PyTorch if told to.
PYTORCH = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "-c":
    sys.exit(0)
flags = dict(a[2:].partition("=")[::2] for a in sys.argv[2:])
for precision in flags["precisions"].split(","):
    for batch in flags["batches"].split(","):
        row = {"model": flags["model"], "method": "PyTorch 2.9",
               "mode": "compile" if "compile" in flags else "eager",
               "batch": int(batch), "precision": precision.upper()}
        if batch == "128":
            row["error"] = "CUDA out of memory"
        else:
            row.update(step_seconds=3e-3, peak_device_bytes=2**30)
        print(json.dumps(row), flush=True)
"""


class BenchTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in (("step", STEP), ("ops", OPS),
                           ("device_ceilings", CEILINGS)):
            self.script("tests/bench/" + name, text)

    def script(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def run_bench(self, *arguments):
        out = os.path.join(self.folder.name, "out")
        result = subprocess.run(
            [sys.executable, os.path.join(HERE, "bench.py"),
             "--programs=" + self.folder.name, "--out=" + out, *arguments],
            capture_output=True, text=True, check=False)
        with open(os.path.join(out, "bench.json"), encoding="utf-8") as file:
            results = json.load(file)
        with open(os.path.join(out, "bench.md"), encoding="utf-8") as file:
            report = file.read()
        return result.returncode, results, report

    def test_everything(self):
        status, results, report = self.run_bench(
            "--python=" + self.script("torch", PYTORCH))
        self.assertEqual(status, 0)
        ours = [row for row in results["steps"]
                if not row["method"].startswith("PyTorch")]
        # Four batches, two methods, three precisions; GaLore twice, replayed;
        # three batches with overlapping launches.
        self.assertEqual(len(ours),
                         4 * 2 * 3 * len(bench.MODES.split(",")) + 2 + 3)
        self.assertIn("| six_encoder | 32 | bf16 | comera | graph, overlapped | "
                      "0.400 |", report)
        self.assertIn("| six_encoder | 32 | bf16 | comera | graph | 0.500 | "
                      "1,000 | 1 | 6.00x | 6.00x | 1000.00x |", report)
        self.assertIn("| batch 32, against PyTorch dense eager | 3x | 6.00x | "
                      "met |", report)
        self.assertIn("| batch 128, against PyTorch dense eager | 3x |  | "
                      "not measured |", report)
        self.assertIn("| batch 1, against GaLore | 3x | 8.00x | met |", report)
        self.assertIn("Fake H200, 132 multiprocessors", report)
        self.assertIn("| Gemm/m:8 | bf16 | 2.0 | 400.00 | 50% |  |  |", report)
        self.assertIn("| Gelu/backward:0 | bf16 | 5.0 |  |  | 2.00 | 50% |",
                      report)
        self.assertIn("| Gemm | 977 | 30.00 | 20.00 |", report)
        self.assertIn("| Fill | 2 | 0.01 |  |", report)
        self.assertIn("no rows", report)
        why = {each["name"]: each["why"] for each in results["missing"]}
        self.assertEqual(why["codebert_large comera batch 64 bf16"],
                         "out of memory: 7 bytes are left")
        self.assertIn("CUDA out of memory", why.values())

    def test_without_pytorch(self):
        status, results, report = self.run_bench("--python=/bin/false")
        self.assertEqual(status, 0)
        self.assertIn("/bin/false has no PyTorch", results["missing"][0]["why"])
        self.assertIn("| batch 32, against PyTorch dense eager | 3x |  | "
                      "not measured |", report)

    def test_out_of_time(self):
        status, results, report = self.run_bench("--python=/bin/false",
                                                 "--seconds=0")
        self.assertEqual(status, 1)
        self.assertEqual(results["steps"], [])
        self.assertIn("| ceilings | the time was up |", report)

    def test_nothing_runs(self):
        self.script("tests/bench/step", "#!/bin/sh\necho no GPU >&2\nexit 1\n")
        status, results, _ = self.run_bench("--python=/bin/false")
        self.assertEqual(status, 1)
        self.assertEqual(results["missing"][1]["why"], "no GPU")

    def test_hang_keeps_the_rows_before_it(self):
        # Reads a pipe into which nobody writes.
        path = self.script("hang", "#!/bin/sh\necho '{\"a\": 1}'\n"
                           f"exec cat {self.folder.name}/pipe\n")
        os.mkfifo(os.path.join(self.folder.name, "pipe"))
        rows, problem = bench.run(
            bench.Program("steps", "hang", [path], 9), 0.5)
        self.assertEqual(problem, "stopped after 0 s")
        self.assertEqual(rows, [{"a": 1}])

    def test_absent_program(self):
        rows, problem = bench.run(
            bench.Program("steps", "none", ["/nowhere/step"], 9), 1)
        self.assertEqual(rows, [])
        self.assertIn("/nowhere/step", problem)

    def test_report_of_nothing(self):
        self.assertIn("# GPU benchmarks", bench_report.markdown(
            {"started": "now", "ceilings": {}, "steps": [], "kernels": [],
             "missing": []}))


if __name__ == "__main__":
    unittest.main()
