#!/usr/bin/python3
"""deploy/kubernetes: what kustomize makes of it holds together, and the
programs take the flags that it gives them. Arguments: a file per folder, and
with --programs=FOLDER the programs."""
import copy
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMAS = check.Schemas(os.path.join(HERE, "schemas.json"))
FOLDER = os.environ["RENDERED"]
EXAMPLES = ("example", "example-gpu")


def rendered(name):
    return check.load(os.path.join(FOLDER, name + ".yaml"))


def said(items):
    return [f"{item['kind']} {item['metadata']['name']}: {text}"
            for item, text in check.problems(SCHEMAS, items)]


def find(items, kind, name):
    return next(item for item in items if item["kind"] == kind and
                item["metadata"]["name"] == name)


class KubernetesTest(unittest.TestCase):
    def test_examples_hold_together(self):
        for name in EXAMPLES:
            self.assertEqual(said(rendered(name)), [], name)

    def test_every_folder_is_part_of_an_example(self):
        made = {name: {(item["kind"], item["metadata"]["name"])
                       for item in rendered(name)}
                for name in os.environ["FOLDERS"].split()}
        whole = made["example"] | made["example-gpu"]
        for name, objects in made.items():
            self.assertTrue(objects, name)
            self.assertEqual(objects - whole, set(), name)

    def test_images_have_versions(self):
        for name in EXAMPLES:
            for _, pod in check.Objects(rendered(name)).pods:
                for container in pod["spec"]["containers"]:
                    self.assertRegex(container["image"],
                                     r"^registry\.example\.com/[^:@]*"
                                     r"(:\d+\.\d+|@sha256:[0-9a-f]{64}$)")

    def test_gpus_are_asked_for(self):
        worker = find(rendered("example-gpu"), "DaemonSet", "comera-worker")
        spec = worker["spec"]["template"]["spec"]
        limits = spec["containers"][0]["resources"]["limits"]
        self.assertIn("nvidia.com/gpu", limits)
        self.assertIn("nvidia.com/gpu", spec["tolerations"][0]["key"])

    def test_several_coordinators_share_what_they_must(self):
        several = find(rendered("example-gpu"), "StatefulSet",
                       "comera-coordinator")["spec"]
        self.assertGreater(several["replicas"], 1)
        self.assertFalse(several["volumeClaimTemplates"])
        container = several["template"]["spec"]["containers"][0]
        self.assertTrue(any("--store=" in one for one in container["args"]))
        one = find(rendered("example"), "StatefulSet",
                   "comera-coordinator")["spec"]
        # Two of these would each have jobs of their own.
        self.assertEqual(one["replicas"], 1)
        # The patch repeats the flags: all of them.
        alone = one["template"]["spec"]["containers"][0]["args"]
        self.assertEqual(set(alone) - set(container["args"]), set())

    def test_programs_take_the_flags(self):
        programs = {"coordinator": "comera-server", "worker": "comera-worker"}
        for name in EXAMPLES:
            for _, pod in check.Objects(rendered(name)).pods:
                container = pod["spec"]["containers"][0]
                self.flags_are_taken(programs[container["name"]], container)

    def flags_are_taken(self, program, container):
        values = {"POD_IP": "10.0.0.7", "POD_NAME": "comera-coordinator-0",
                  "STORE_URL": "postgres://comera@db/comera"}
        arguments = [re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], one)
                     for one in container["args"]]
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [os.path.join(os.environ["PROGRAMS"], program),
                 "--data_dir=" + folder, "--print-config"] + arguments,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False)
        self.assertEqual(run.returncode, 0, run.stdout)
        ports = {port["containerPort"] for port in container["ports"]}
        listens = {int(line.rsplit(":", 1)[1]) for line in
                   run.stdout.splitlines() if re.match(r"\w*listen=.*:", line)}
        self.assertEqual(listens, ports)

    def test_mistakes_are_noticed(self):
        """Each mistake of these is one that check.py must find."""
        def path(*names):
            def change(items, kind, name, value):
                place = find(items, kind, name)
                for part in names[:-1]:
                    place = place[part]
                if value is None:
                    del place[names[-1]]
                else:
                    place[names[-1]] = value
            return change

        pod = ("spec", "template", "spec")
        container = pod + ("containers", 0)
        mistakes = [
            ("StatefulSet", "comera-coordinator", ("spec", "replica"), 2),
            ("StatefulSet", "comera-coordinator", ("spec", "replicas"), "two"),
            ("StatefulSet", "comera-coordinator", ("spec", "serviceName"), "x"),
            ("DaemonSet", "comera-worker", pod + ("serviceAccountName",), "x"),
            ("DaemonSet", "comera-worker", pod + ("hostNetwork",), True),
            ("DaemonSet", "comera-worker", pod + ("securityContext",), {}),
            ("DaemonSet", "comera-worker", container + ("securityContext",),
             {}),
            ("DaemonSet", "comera-worker", container + ("ports", 0, "name"),
             "other"),
            ("DaemonSet", "comera-worker", container + ("resources",), {}),
            ("DaemonSet", "comera-worker", container + ("volumeMounts",), []),
            ("DaemonSet", "comera-worker", container + ("env",), []),
            ("DaemonSet", "comera-worker", pod + ("volumes", 2, "secret"),
             {"secretName": "nobodys"}),
            ("DaemonSet", "comera-worker",
             ("spec", "selector", "matchLabels"), {"a": "b"}),
            ("Service", "comera", ("spec", "selector"), {"a": "b"}),
            ("Service", "comera", ("spec", "ports", 0, "targetPort"), "x"),
            ("PodDisruptionBudget", "comera-coordinator",
             ("spec", "selector", "matchLabels"), {"a": "b"}),
            ("NetworkPolicy", "comera-worker",
             ("spec", "ingress", 2, "ports", 0, "port"), "x"),
            ("NetworkPolicy", "comera-worker",
             ("spec", "podSelector", "matchLabels"), {"a": "b"}),
            ("PersistentVolumeClaim", "comera-checkpoints",
             ("metadata", "name"), "other"),
            ("Service", "comera-coordinators", ("spec", "clusterIP"), None),
        ]
        good = rendered("example")
        for kind, name, names, value in mistakes:
            items = copy.deepcopy(good)
            path(*names)(items, kind, name, value)
            self.assertTrue(said(items), f"{kind} {name} {names}")


if __name__ == "__main__":
    unittest.main()
