"""The package itself: generated stubs, types, what it imports, a wheel."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import TREE

PACKAGE = TREE / "client/python"


def run(*command, **options):
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, **options,
    )
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class StubsTest(unittest.TestCase):
    def test_the_build_has_every_module_that_the_script_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            run(
                PACKAGE / "generate_stubs.sh", folder,
                env={**os.environ, "COMERA_PROTO_DIR": str(TREE / "proto")},
            )
            fresh = {p.name: p.read_text() for p in Path(folder).iterdir()}
        built = {p.name: p.read_text() for p in (PACKAGE / "comera/_proto").iterdir()}
        self.assertEqual(built, fresh)

    def test_every_proto_for_clients_has_its_modules(self):
        stubs = {p.name for p in (PACKAGE / "comera/_proto").iterdir()}
        for proto in (TREE / "proto").glob("comera/*/*.proto"):
            names = {f"{proto.stem}_pb2.py", f"{proto.stem}_pb2.pyi"}
            if re.search(r"^service ", proto.read_text(), re.M):
                names.add(f"{proto.stem}_pb2_grpc.py")
            self.assertLessEqual(names, stubs)


class ImportTest(unittest.TestCase):
    def test_needs_grpc_and_protobuf_only(self):
        program = (
            # What grpc and protobuf import for themselves is not comera's doing:
            # grpc imports grpc_tools, grpc_health and their like where they are
            # installed.
            "import sys, grpc, google.protobuf\n"
            "before = set(sys.modules)\n"
            "optional = ['torch', 'numpy', 'pandas', 'matplotlib', 'yaml']\n"
            "sys.modules.update(dict.fromkeys(optional))\n"
            "import comera, comera.protos, comera.safetensors, comera.tokenizers\n"
            "comera.Client('127.0.0.1:1').close()\n"
            "comera.job_spec({'priority': 1})\n"
            "new = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
            "new -= set(sys.stdlib_module_names) | set(optional)\n"
            "print(*sorted(m for m in new if not m.startswith('_')))\n"
        )
        found = set(run(sys.executable, "-c", program).split())
        self.assertIn("comera", found)
        self.assertLessEqual(found, {"comera", "grpc", "google", "cython_runtime"})

    def test_what_is_missing_is_named(self):
        for module, statement in (
            ("torch", "import comera.torch"),
            ("yaml", "comera.job_spec('a: b\\n')"),
            ("pandas", "comera.series.Series(comera.protos.JobSeries()).to_pandas()"),
        ):
            program = (
                f"import sys; sys.modules['{module}'] = None\n"
                "import comera, comera.protos, comera.series\n"
                f"try:\n    {statement}\n"
                "except comera.MissingDependencyError as error:\n    print(error)\n"
            )
            self.assertRegex(run(sys.executable, "-c", program), "Debian: python3-")

    def test_other_packages_may_bring_googles_messages(self):
        # Registers them as googleapis-common-protos does.
        program = (
            "from google.protobuf import descriptor_pb2, descriptor_pool\n"
            "f = descriptor_pb2.FileDescriptorProto(\n"
            "    name='google/rpc/status.proto', package='google.rpc')\n"
            "f.message_type.add(name='Status')\n"
            "f.message_type.add(name='ErrorInfo')\n"
            "descriptor_pool.Default().AddSerializedFile(f.SerializeToString())\n"
            "import comera\n"
            "print('good')\n"
        )
        self.assertEqual(run(sys.executable, "-c", program), "good\n")

    def test_the_version_is_the_programs(self):
        header = (TREE / "common/version.h").read_text()
        (version,) = re.findall(r'kVersion\[\] = "(.*)"', header)
        import comera

        self.assertEqual(comera.__version__, version)


class TypesTest(unittest.TestCase):
    def test_mypy_strict(self):
        mypy = shutil.which("mypy", path="/usr/bin")
        if mypy is None:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PACKAGE, Path(folder) / "p")
            run(mypy, "--cache-dir", folder + "/cache", cwd=folder + "/p")
            # A program that misuses the package is told so.
            wrong = Path(folder) / "p" / "wrong.py"
            wrong.write_text("import comera\ncomera.Client(server=3)\n")
            with self.assertRaisesRegex(AssertionError, "incompatible type"):
                run(mypy, "--cache-dir", folder + "/cache", "wrong.py", cwd=folder + "/p")


class WheelTest(unittest.TestCase):
    def test_builds_offline_and_installs_into_a_clean_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            shutil.copytree(PACKAGE, source)
            run(
                "/usr/bin/python3", "-m", "pip", "--no-cache-dir", "wheel", "--no-deps",
                "--no-index", "--no-build-isolation", "--wheel-dir", folder, source,
            )
            (wheel,) = Path(folder).glob("comera-*-py3-none-any.whl")
            names = run("/usr/bin/python3", "-m", "zipfile", "-l", wheel)
            for name in (
                "comera/py.typed", "comera/_proto/job_pb2.pyi", "comera/torch/layers.py",
                "comera/tokenizers/byte_bpe.py",
            ):
                self.assertIn(name, names)
            # Nothing at the top but the package.
            tops = set(re.findall(r"^(\w[^/\s]*)/", names, re.M))
            self.assertEqual(
                {t for t in tops if not t.endswith(".dist-info")}, {"comera"}
            )
            site = Path(folder) / "venv"
            run(
                "/usr/bin/python3", "-m", "venv", "--without-pip",
                "--system-site-packages", site,
            )
            run(
                "/usr/bin/python3", "-m", "pip", "--no-cache-dir", "install", "--no-deps",
                "--no-index", "--target",
                run(site / "bin/python", "-c",
                    "import sysconfig; print(sysconfig.get_path('purelib'))").strip(),
                wheel,
            )
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            found = run(
                site / "bin/python", "-c",
                "import comera, importlib.metadata, comera._proto.job_pb2;"
                "print(importlib.metadata.version('comera'), comera.__version__,"
                " comera.__file__)",
                env=environment, cwd=folder,
            ).split()
            self.assertEqual(found[0], found[1])
            self.assertIn(str(site), found[2])


if __name__ == "__main__":
    unittest.main()
