#!/usr/bin/python3
"""deploy/helm/comera: the chart makes the objects that deploy/kubernetes makes,
refuses values that mean nothing, and its settings lead where they should."""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMAS = check.Schemas(os.path.join(HERE, "schemas.json"))
CHART = os.environ["CHART"]
FOLDER = os.environ["RENDERED"]


def read(name):
    with open(os.path.join(CHART, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def merge(base, over):
    """What Helm does with several files of values: maps are merged, the rest is
    replaced."""
    result = copy.deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def validate(values):
    jsonschema.validate(values, read("values.schema.json"))


def render(values=None):
    values = merge(read("values.yaml"), values or {})
    validate(values)
    chart = read("Chart.yaml")
    context = {
        "Values": values, "Release": {"Name": "comera", "Namespace": "comera"},
        "Chart": {"Name": chart["name"], "Version": chart["version"],
                  "AppVersion": chart["appVersion"]},
    }
    done = subprocess.run([os.path.join(FOLDER, "render_chart"), CHART],
                          input=json.dumps(context), capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def said(items):
    return [f"{item['kind']} {item['metadata']['name']}: {text}"
            for item, text in check.problems(SCHEMAS, items)]


def by_name(items):
    found = {(item["kind"], item["metadata"]["name"]): item for item in items}
    assert len(found) == len(items), "two objects of one name"
    return found


def by_order_of_names(value):
    """Lists of named things, whose order says nothing, in the order of names."""
    if isinstance(value, dict):
        return {key: by_order_of_names(one) for key, one in value.items()}
    if isinstance(value, list):
        value = [by_order_of_names(one) for one in value]
        if all(isinstance(one, dict) and "name" in one for one in value):
            return sorted(value, key=lambda one: one["name"])
    return value


def kustomized(name):
    """kustomize's objects but for the namespace, which `helm install` makes."""
    items = by_name(check.load(os.path.join(FOLDER, name + ".yaml")))
    return {key: item for key, item in items.items() if key[0] != "Namespace"}


class HelmChartTest(unittest.TestCase):
    maxDiff = None

    def compare(self, chart, name):
        other = kustomized(name)
        self.assertGreater(len(other), 6)
        self.assertEqual(set(chart), set(other))
        for key, item in other.items():
            self.assertEqual(by_order_of_names(chart[key]),
                             by_order_of_names(item), key)

    def test_defaults_are_the_example(self):
        self.compare(by_name(render()), "example")

    def test_gpu_values_are_the_gpu_example(self):
        self.compare(by_name(render(read("examples/gpu.yaml"))), "example-gpu")

    def test_objects_hold_together(self):
        for values in ({}, read("examples/gpu.yaml"),
                       {"coordinator": {"storageClass": "fast"},
                        "worker": {"checkpointStorageClass": "shared"}},
                       {"worker": {"checkpointStore": "s3://bucket/comera"}}):
            self.assertEqual(said(render(values)), [], values)

    def test_settings_lead_somewhere(self):
        items = by_name(render({
            "image": {"registry": "r.example.net", "tag": "9.9"},
            "coordinator": {"extraArgs": ["--keep_jobs=30d"],
                            "storage": "7Gi", "storageClass": "fast"},
            "worker": {"extraArgs": ["--rack=a b\"c"], "slots": 5,
                       "checkpointStore": "s3://bucket/comera",
                       "files": {"nfs": {"server": "n", "path": "/p"}}},
        }))
        coordinator = items["StatefulSet", "comera-coordinator"]["spec"]
        container = coordinator["template"]["spec"]["containers"][0]
        self.assertEqual(container["image"], "r.example.net/comera-server:9.9")
        self.assertIn("--keep_jobs=30d", container["args"])
        claim = coordinator["volumeClaimTemplates"][0]["spec"]
        self.assertEqual(claim["storageClassName"], "fast")
        self.assertEqual(claim["resources"]["requests"]["storage"], "7Gi")
        pod = items["DaemonSet", "comera-worker"]["spec"]["template"]["spec"]
        arguments = pod["containers"][0]["args"]
        for one in ("--rack=a b\"c", "--slots=5",
                    "--checkpoint_store=s3://bucket/comera"):
            self.assertIn(one, arguments)
        self.assertIn({"name": "files", "nfs": {"server": "n", "path": "/p"}},
                      pod["volumes"])
        self.assertNotIn(("PersistentVolumeClaim", "comera-checkpoints"), items)

    def test_parts_can_be_left_out(self):
        kinds = {kind for kind, _ in by_name(render(
            {"worker": {"enabled": False}, "monitoring": {"enabled": True}}))}
        self.assertNotIn("DaemonSet", kinds)
        self.assertIn("ServiceMonitor", kinds)
        self.assertNotIn("PodMonitor", kinds)

    def test_wrong_values_are_refused(self):
        for values in ({"worker": {"slot": 3}}, {"worker": {"slots": "three"}},
                       {"worker": {"gpus": "all"}}, {"image": {"registry": ""}},
                       {"worker": {"checkpointStore": "/elsewhere"}},
                       {"coordinator": {"storage": "50 GB"}},
                       {"coordinator": {"extraArgs": ["keep_jobs=30d"]}},
                       {"coordinator": {"resources": {"limits": 3}}}):
            with self.assertRaises(jsonschema.ValidationError, msg=values):
                validate(merge(read("values.yaml"), values))

    def test_programs_take_the_flags(self):
        values = {"POD_IP": "10.0.0.7", "POD_NAME": "comera-coordinator-0",
                  "STORE_URL": "postgres://comera@db/comera"}
        programs = {"coordinator": "comera-server", "worker": "comera-worker"}
        for more in ({}, read("examples/gpu.yaml")):
            for _, pod in check.Objects(render(more)).pods:
                container = pod["spec"]["containers"][0]
                with tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run(
                        [os.path.join(os.environ["PROGRAMS"],
                                      programs[container["name"]]),
                         "--data_dir=" + folder, "--print-config"] +
                        [re.sub(r"\$\((\w+)\)", lambda match: values[match[1]],
                                one) for one in container["args"]],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
