"""What people write as jobs and sweeps."""

import json
import os
import tempfile
import unittest
from pathlib import Path

import comera
from comera import job_spec, sweep_spec
from comera._proto import job_pb2
from programs import TREE

try:
    import yaml
except ImportError:
    yaml = None


class JobSpecTest(unittest.TestCase):
    def test_dicts_are_read_as_job_files_are(self):
        spec = job_spec(
            {
                "model": {"family": "masked_lm", "hidden": 128, "dropout": "1e-1"},
                "labels": {"team": "a", "n": 1},
                "compression": {
                    "method": "COMERA",
                    "attention": {"ranks": 32},
                    "head": {"ranks": "auto"},
                    "output": {"ranks": [1, 2]},
                },
                "objective": {"late": {"target_bytes": "2MiB", "target_loss": 1}},
                "timeLimit": "1h30m",
                "preemptible": False,
                "retries": {"classes": {"failure_class": "node_lost", "retries": 2}},
            }
        )
        self.assertEqual(spec.model.family, job_pb2.ModelSpec.MASKED_LM)
        self.assertEqual(spec.model.dropout, 0.1)
        self.assertEqual(dict(spec.labels), {"team": "a", "n": "1"})
        self.assertEqual(list(spec.compression.attention.ranks), [32])
        self.assertEqual(list(spec.compression.head.ranks), [])
        self.assertEqual(list(spec.compression.output.ranks), [1, 2])
        self.assertEqual(spec.objective.late.target_bytes, 2 << 20)
        self.assertEqual(spec.time_limit.seconds, 5400)
        self.assertFalse(spec.preemptible)
        self.assertTrue(spec.HasField("preemptible"))
        self.assertEqual(spec.retries.classes[0].failure_class, job_pb2.NODE_LOST)

    def test_what_is_wrong_is_named(self):
        for data, field, what in (
            ({"modle": {}}, "modle", "did you mean `model`"),
            ({"model": {"hiden": 1}}, "model.hiden", "did you mean `hidden`"),
            ({"model": {"family": "masked"}}, "model.family", "masked_lm"),
            ({"model": {"family": "family_unspecified"}}, "model.family", "is none of"),
            ({"model": 3}, "model", "needs fields"),
            ({"model": {"hidden": [1]}}, "model.hidden", "needs one value"),
            ({"model": {"hidden": 1.5}}, "model.hidden", "whole number"),
            ({"model": {"layers": 2**31}}, "model.layers", "out of range"),
            ({"model": {"hidden": True}}, "model.hidden", "whole number"),
            ({"model": {"dropout": "nan"}}, "model.dropout", "finite"),
            ({"model": {"hidden": None}}, "model.hidden", "has no value"),
            ({"labels": ["a"]}, "labels", "needs keys and values"),
            ({"time_limit": "5 parsecs"}, "time_limit", "duration"),
            ({"preemptible": 1}, "preemptible", "true or false"),
            ({"training": {"seed": -1}}, "training.seed", "out of range"),
            (
                {"objective": {"late": {"target_bytes": 1, "target_ratio": 0.5}}},
                "objective.late.target_ratio", "excludes `target_bytes`",
            ),
            (
                {"objective": {"late": {"targets": [{"target_los": 1}]}}},
                "objective.late.targets[0].target_los", "target_loss",
            ),
        ):
            with self.subTest(field), self.assertRaises(comera.SpecError) as caught:
                job_spec(data)
            self.assertEqual(caught.exception.field, field)
            self.assertIn(what, str(caught.exception))

    def test_former_names_are_read_with_a_warning(self):
        old = {"ranks": 4, "min_ranks": 2, "threadsPerRank": 3}
        with self.assertWarnsRegex(
            DeprecationWarning, "resources.ranks is now called resources.processes"
        ):
            spec = job_spec({"resources": old})
        self.assertEqual(spec.resources.processes, 4)
        self.assertEqual(spec.resources.min_processes, 2)
        self.assertEqual(spec.resources.threads_per_process, 3)
        with self.assertWarns(DeprecationWarning):
            spec = job_spec({}, {"resources.ranks": 2})
        self.assertEqual(spec.resources.processes, 2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "job.textproto"
            path.write_text(
                "resources { ranks: 5 } compression { head { ranks: 7 } }"
            )
            with self.assertWarns(DeprecationWarning):
                spec = job_spec(path)
        self.assertEqual(spec.resources.processes, 5)
        self.assertEqual(list(spec.compression.head.ranks), [7])
        with self.assertRaisesRegex(comera.SpecError, "which is given too"):
            with self.assertWarns(DeprecationWarning):
                job_spec({"resources": {"processes": 1, "ranks": 1}})

    def test_fields_by_their_paths(self):
        spec = job_spec(
            {"priority": 3, "compression": {"attention": {"ranks": [1, 2]}}},
            {
                "priority": 5,
                "objective.early.steps": 100,
                "labels.a.b": "c",
                "compression.attention.ranks": 7,
            },
        )
        self.assertEqual(spec.priority, 5)
        self.assertEqual(spec.objective.early.steps, 100)
        self.assertEqual(dict(spec.labels), {"a.b": "c"})
        self.assertEqual(list(spec.compression.attention.ranks), [7])
        for path in ("objectiv.early", "priority.x", "objective.late.targets.x"):
            with self.subTest(path), self.assertRaises(comera.SpecError):
                job_spec({}, {path: 1})

    def test_messages_are_copied(self):
        given = job_pb2.JobSpec(display_name="x")
        spec = job_spec(given, {"display_name": "y"})
        self.assertEqual((given.display_name, spec.display_name), ("x", "y"))

    def test_files_and_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "job.json"
            path.write_text('{"data": {"jsonl": {"train": "a/../t.jsonl"}}}')
            self.assertEqual(job_spec(path).data.jsonl.train, f"{folder}/t.jsonl")
            self.assertEqual(job_spec(str(path)).data.jsonl.validation, "")
            text = Path(folder) / "job.textproto"
            text.write_text('display_name: "x"')
            self.assertEqual(job_spec(text).display_name, "x")
            text.write_text("display_nam: 1")
            with self.assertRaises(comera.SpecError):
                job_spec(text)
            path.write_text('{"priority": 1, "priority": 2}')
            with self.assertRaisesRegex(comera.SpecError, "given twice"):
                job_spec(path)
            for contents in ("{", "[1]", '{"a"}', "[" * 100_000):
                path.write_text(contents)
                with self.subTest(contents[:9]), self.assertRaises(comera.SpecError):
                    job_spec(path)
            other = Path(folder) / "job.ini"
            other.write_text("")
            with self.assertRaisesRegex(comera.SpecError, "ends in none of"):
                job_spec(other)
            with self.assertRaises(FileNotFoundError):
                job_spec(Path(folder) / "none.json")
        self.assertEqual(job_spec('{"priority": 2}').priority, 2)

    def test_datasets_names_stay(self):
        spec = job_spec({"data": {"jsonl": {"train": "datasets/d/t", "validation": "v"}}})
        self.assertEqual(spec.data.jsonl.train, "datasets/d/t")
        self.assertEqual(spec.data.jsonl.validation, os.path.join(os.getcwd(), "v"))

    def test_every_path_is_relative_to_the_file(self):
        names = {part: part for part in ("train", "validation", "test")}
        lists = {part: [part, f"../{part}/*.txt"] for part in names}
        for data, expected in (
            ({"glue_tsv": names}, ["{0}/train", "{0}/validation", "{0}/test"]),
            ({"jsonl": names}, ["{0}/train", "{0}/validation", "{0}/test"]),
            ({"labelled_text": names}, ["{0}/train", "{0}/validation", "{0}/test"]),
            ({"token_shards": names}, ["{0}/train", "{0}/validation", "{0}/test"]),
            (
                {"text": lists},
                [
                    path
                    for part in names
                    for path in ("{0}/" + part, "{1}/" + part + "/*.txt")
                ],
            ),
            ({"code_directory": {"roots": ["a", "/b"]}}, ["{0}/a", "/b"]),
            ({"criteo_tsv": {"files": ["a", "/b"]}}, ["{0}/a", "/b"]),
            (
                {
                    "tokenizer": {
                        "vocabulary_file": "v",
                        "merges_file": "m",
                        "tokenizer_file": "t",
                    }
                },
                ["{0}/v", "{0}/m", "{0}/t"],
            ),
        ):
            with self.subTest(next(iter(data))), tempfile.TemporaryDirectory() as top:
                folder = Path(top) / "jobs"
                folder.mkdir()
                path = folder / "job.json"
                path.write_text(json.dumps({"data": data}))
                spec = job_spec(path).data
                (field, message), = spec.ListFields()
                found = []
                for _, value in message.ListFields():
                    found += [value] if isinstance(value, str) else list(value)
                wanted = [text.format(folder, top) for text in expected]
                self.assertEqual(sorted(found), sorted(wanted), field.name)

    def test_urls_stay(self):
        spec = job_spec({"data": {"jsonl": {"train": "https://h/a?x=1", "validation": "s3://bucket/v"}}})
        self.assertEqual(spec.data.jsonl.train, "https://h/a?x=1")
        self.assertEqual(spec.data.jsonl.validation, "s3://bucket/v")

    def test_hostile_nesting_and_size(self):
        nested = {}
        for _ in range(100):
            nested = {"model": nested}
        with self.assertRaises(comera.SpecError):
            job_spec(nested)
        with self.assertRaisesRegex(comera.SpecError, "too many"):
            job_spec({"objective": {"late": {"targets": [{"target_loss": 1}] * 20_000}}})

    @unittest.skipIf(yaml is None, "PyYAML is not installed")
    def test_yaml(self):
        spec = job_spec("model: {family: dlrm}\npriority: 3\n")
        self.assertEqual(spec.priority, 3)
        for text, what in (
            ("priority: 1\npriority: 2\n", ":2: priority: given twice"),
            ("model: {\n", "specification"),
            ("? [a]\n: b\n", "specification"),
            ("a: &x [*x]\n", "a"),
            ("x: !!python/object/apply:os.system [ls]\n", "specification"),
        ):
            with self.subTest(text), self.assertRaisesRegex(comera.SpecError, what):
                job_spec(text)

    @unittest.skipIf(yaml is None, "PyYAML is not installed")
    def test_every_example_of_the_docs(self):
        files = sorted((TREE / "docs/examples").glob("*.yaml"))
        self.assertGreater(len(files), 5)
        for path in files:
            with self.subTest(path.name):
                if "sweep:" in path.read_text():
                    self.assertTrue(sweep_spec(path).HasField("job"))
                else:
                    self.assertTrue(job_spec(path).model.family)


class SweepSpecTest(unittest.TestCase):
    def test_the_section_and_the_job_beside_it(self):
        source = {
            "priority": 2,
            "sweep": {
                "grid": {
                    "seeds": [1, 2],
                    "fields": {
                        "optimizer.learning_rate_cores": [0.1, 0.2],
                        "compression.attention.ranks": [[8, 16], 4],
                        "training.batch_size": 32,
                    },
                },
                "max_parallel": 2,
            },
        }
        spec = sweep_spec(source)
        self.assertEqual(spec.job.priority, 2)
        self.assertEqual(list(spec.grid.seeds), [1, 2])
        fields = {f.path: list(f.values) for f in spec.grid.fields}
        self.assertEqual(fields["compression.attention.ranks"], ["[8, 16]", "4"])
        self.assertEqual(fields["training.batch_size"], ["32"])
        # The caller's dict stays as it was.
        self.assertIsInstance(source["sweep"]["grid"]["fields"], dict)
        search = sweep_spec({"compression": {"method": "auto"}, "budget": {"steps": 9}})
        self.assertEqual(search.job.budget.steps, 9)
        listed = sweep_spec({"sweep": {"list": [{"fields": {"priority": 1}}]}})
        self.assertEqual(listed.list[0].fields[0].value, "1")

    def test_what_is_wrong_is_named(self):
        for source in ({}, {"sweep": 3}, {"sweep": {"job": {}}}, {"sweep": {"grd": {}}}):
            with self.subTest(source), self.assertRaises(comera.SpecError):
                sweep_spec(source)


if __name__ == "__main__":
    unittest.main()
