"""TLS, certificates, tokens and roles, with a real coordinator."""

import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import comera
from comera._proto import access_service_pb2
from programs import TREE, program

QUICK = comera.RetryPolicy(timeout=2, attempt_timeout=1, initial_backoff=0.05)
PATIENT = comera.RetryPolicy(timeout=20)


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run(
            [TREE / "deploy/tls.sh", cls.folder / "tls", "--server=localhost,127.0.0.1",
             "--client=ann"],
            check=True, stdout=subprocess.DEVNULL,
        )
        cls.address, cls.token_file = cls.start("server")
        cls.ca = cls.folder / "tls/ca/ca.pem"

    @classmethod
    def start(cls, name, *flags):
        port_file = cls.folder / f"{name}.port"
        token_file = cls.folder / f"{name}.token"
        own = cls.folder / "tls/localhost/current"
        log = open(cls.folder / f"{name}.log", "wb")
        cls.addClassCleanup(log.close)
        process = subprocess.Popen(
            [program("server/comera-server"), "--listen=127.0.0.1:0",
             f"--port_file={port_file}", f"--data_dir={cls.folder}/{name}",
             f"--tls_cert={own}/cert.pem", f"--tls_key={own}/key.pem",
             f"--init_admin_token_file={token_file}", *flags],
            stdout=log, stderr=log,
        )
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        limit = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text().strip()):
            if process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(Path(log.name).read_text())
            time.sleep(0.02)
        port = port_file.read_text().strip().rpartition(":")[2]
        return f"localhost:{port}", token_file

    def test_a_token_over_tls(self):
        with comera.Client(
            self.address, ca=self.ca, token_file=self.token_file, retry=PATIENT
        ) as client:
            answer = client.whoami()
            self.assertFalse(answer.open)
            self.assertEqual(answer.token.role, access_service_pb2.ROLE_ADMIN)
            self.assertEqual(list(client.list()), [])
            wanted = access_service_pb2.CreateTokenRequest(
                user="bob", role=access_service_pb2.ROLE_VIEWER
            )
            made = client._call("access", "CreateToken", wanted)
        with comera.Client(
            self.address, ca=self.ca, token=made.secret, retry=PATIENT
        ) as viewer:
            self.assertEqual(viewer.whoami().user, "bob")
            with self.assertRaises(comera.PermissionDeniedError):
                viewer._call("access", "CreateToken", wanted)

    def test_strangers_are_refused(self):
        with comera.Client(self.address, ca=self.ca, retry=PATIENT) as client:
            with self.assertRaises(comera.UnauthenticatedError):
                client.whoami()
        with comera.Client(
            self.address, ca=self.ca, token="comera_wrong", retry=PATIENT
        ) as client:
            with self.assertRaises(comera.UnauthenticatedError) as caught:
                list(client.list())
            self.assertNotIn("comera_wrong", str(caught.exception))

    def test_another_authority_is_not_believed(self):
        with tempfile.TemporaryDirectory() as other:
            subprocess.run(
                [TREE / "deploy/tls.sh", other, "--server=localhost"],
                check=True, stdout=subprocess.DEVNULL,
            )
            with comera.Client(
                self.address, ca=f"{other}/ca/ca.pem", token_file=self.token_file,
                retry=QUICK,
            ) as client, self.assertRaises(comera.UnavailableError):
                client.whoami()

    def test_certificates_of_clients(self):
        address, token_file = self.start("mutual", f"--tls_client_ca={self.ca}")
        own = self.folder / "tls/ann/current"
        with comera.Client(
            address, ca=self.ca, cert=own / "cert.pem", key=own / "key.pem",
            token_file=token_file, retry=PATIENT,
        ) as client:
            self.assertTrue(client.whoami().token.name)
        with comera.Client(
            address, ca=self.ca, token_file=token_file, retry=QUICK
        ) as client, self.assertRaises(comera.UnavailableError):
            client.whoami()

    def test_login_is_the_command_lines(self):
        os.environ["XDG_CONFIG_HOME"] = str(self.folder / "config")
        self.addCleanup(os.environ.pop, "XDG_CONFIG_HOME")
        comera.login(self.address, token_file=self.token_file, ca=self.ca)
        listed = subprocess.run(
            [program("client/comera"), "whoami", "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        self.assertEqual(listed.returncode, 0, listed.stdout)
        subprocess.run(
            [program("client/comera"), "ls"], check=True, stdout=subprocess.DEVNULL
        )
        with comera.Client(retry=PATIENT) as client:
            self.assertEqual(client.server, self.address)
            self.assertFalse(client.whoami().open)


if __name__ == "__main__":
    unittest.main()
