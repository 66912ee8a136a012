"""Where the client finds its server and its token."""

import os
import tempfile
import unittest
from pathlib import Path

import grpc

import comera
from client_case import ClientTestCase
from comera._proto import access_service_pb2
from fake_server import FakeServer

Code = grpc.StatusCode


class LoginTest(ClientTestCase):
    def setUp(self):
        super().setUp()
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        os.environ["XDG_CONFIG_HOME"] = self.home.name
        self.addCleanup(os.environ.pop, "XDG_CONFIG_HOME", None)
        self.fake.answers["WhoAmI"] = access_service_pb2.WhoAmIResponse(user="ann")

    def _token(self):
        return self.fake.calls[-1][2].get("authorization")

    def test_what_is_stored_is_used_for_its_server_only(self):
        answer = comera.login(self.fake.address, token="comera_secret")
        self.assertEqual(answer.user, "ann")
        path = Path(self.home.name) / "comera" / "login.json"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        with comera.Client() as client:
            self.assertEqual(client.server, self.fake.address)
            client.whoami()
            self.assertEqual(self._token(), "Bearer comera_secret")
            self.assertNotIn("comera_secret", repr(client))
        with FakeServer() as other:
            other.answers["WhoAmI"] = access_service_pb2.WhoAmIResponse()
            with comera.Client(other.address) as client:
                client.whoami()
            self.assertNotIn("authorization", other.calls[-1][2])

    def test_nothing_is_stored_when_the_server_refuses(self):
        self.fake.answers["WhoAmI"] = lambda r, c: c.abort(Code.UNAUTHENTICATED, "no")
        with self.assertRaises(comera.UnauthenticatedError):
            comera.login(self.fake.address, token="comera_wrong")
        self.assertFalse((Path(self.home.name) / "comera").exists())

    def test_argument_before_environment_before_login(self):
        comera.login(self.fake.address, token="stored")
        os.environ["COMERA_TOKEN"] = "environment"
        self.addCleanup(os.environ.pop, "COMERA_TOKEN", None)
        with comera.Client() as client:
            client.whoami()
        self.assertEqual(self._token(), "Bearer environment")
        with comera.Client(token="argument") as client:
            client.whoami()
        self.assertEqual(self._token(), "Bearer argument")

    def test_a_token_file_is_read_again(self):
        path = Path(self.home.name) / "token"
        path.write_text("first\n")
        os.utime(path, ns=(1, 1))
        with comera.Client(self.fake.address, token_file=path) as client:
            client.whoami()
            self.assertEqual(self._token(), "Bearer first")
            path.write_text("second\n")
            client.whoami()
            self.assertEqual(self._token(), "Bearer second")
            path.unlink()
            client.whoami()
            self.assertEqual(self._token(), "Bearer second")

    def test_tokens_do_not_travel_in_the_clear(self):
        with self.assertRaisesRegex(comera.ConfigError, "unencrypted") as caught:
            comera.Client("example.com:7400", token="comera_secret")
        self.assertNotIn("comera_secret", str(caught.exception))
        comera.Client("example.com:7400", token="x", insecure_token=True).close()

    def test_settings_that_do_not_belong_together(self):
        for wrong in (
            {"cert": "c.pem"}, {"cert": "c.pem", "key": "k.pem"}, {"ca": "/nowhere"},
            {"token": "has space"}, {"token_file": "/nowhere"}, {"token": "x" * 8000},
        ):
            with self.subTest(wrong), self.assertRaises(comera.ConfigError):
                comera.Client(self.fake.address, **wrong)


if __name__ == "__main__":
    unittest.main()
