"""The notebook is tour.py's, and its cells run from top to bottom; the sweep
example draws a front."""

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest

import comera
from cluster import Cluster
from programs import TREE

EXAMPLES = TREE / "client/python/examples"


class NotebookTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        os.environ["COMERA_SERVER"] = cls.cluster.address
        cls.addClassCleanup(os.environ.pop, "COMERA_SERVER")

    def test_it_is_made_from_the_tour(self):
        made = self.cluster.folder / "tour.ipynb"
        subprocess.run(
            [sys.executable, EXAMPLES / "make_notebook.py", "--output", made], check=True
        )
        self.assertEqual(
            (EXAMPLES / "tour.ipynb").read_text(), made.read_text(),
            "run client/python/examples/make_notebook.py and commit",
        )

    def test_every_cell_runs(self):
        document = json.loads((EXAMPLES / "tour.ipynb").read_text())
        self.assertEqual((document["nbformat"], document["nbformat_minor"]), (4, 5))
        ids = [cell["id"] for cell in document["cells"]]
        self.assertEqual(len(ids), len(set(ids)))
        scope = {"__name__": "__main__"}
        out = io.StringIO()
        for cell in document["cells"]:
            self.assertIn(cell["cell_type"], ("code", "markdown"))
            if cell["cell_type"] == "markdown":
                continue
            source = "".join(cell["source"])
            with contextlib.redirect_stdout(out):
                try:
                    exec(compile(source, cell["id"], "exec"), scope)
                except Exception as error:
                    raise AssertionError(
                        f"{source}\n{error!r}\n{out.getvalue()}\n{self.cluster.logs()}"
                    ) from error
        self.assertEqual(scope["job"].state, "SUCCEEDED")
        self.assertIn("heads", out.getvalue())
        self.assertLess(scope["losses"][-1], scope["losses"][0])

    def test_the_sweep_example(self):
        plot = self.cluster.folder / "front.svg"
        done = subprocess.run(
            ["/usr/bin/python3", EXAMPLES / "pareto_sweep.py", "--roots",
             self.cluster.corpus, "--steps", "60", "--ratios", "0.9", "0.8",
             "--plot", plot],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150,
        )
        self.assertEqual(done.returncode, 0, done.stdout + self.cluster.logs())
        self.assertIn("ratio=0.8: jobs/", done.stdout)
        self.assertRegex(done.stdout, r"hyper-volume: 0\.\d+")
        self.assertIn("<svg", plot.read_text())
        (sweep,) = comera.Client().list_sweeps()
        self.assertEqual(sweep.state, "SUCCEEDED")
        self.assertEqual(len(sweep.refresh().runs), 2)
        self.assertEqual(len(sweep.jobs), 2)


if __name__ == "__main__":
    unittest.main()
