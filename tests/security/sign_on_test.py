#!/usr/bin/python3
"""Single sign-on with a real issuer: roles, forged tokens, rotation, browsers.

Starts oidc-provider (oidc_issuer/issuer.mjs) and a coordinator that trusts it.
Tokens come from the issuer where somebody signs in; those that no issuer would
give are signed here with its key, by the openssl program.
"""
import base64
import hashlib
import hmac
import http.cookiejar
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.getcwd()  # where Bazel starts tests
INSTALLED = os.path.realpath(
    os.path.join(os.environ["TEST_SRCDIR"], "oidc_issuer_npm/installed"))
UNAUTHENTICATED, FORBIDDEN, LATER = 401, 403, 503
JOB = """
display_name: small
queue: QUEUE
model:
  family: dlrm
  dlrm: {bottom_mlp: [16, 8], top_mlp: [16, 1], compressed_tables: 1}
data:
  synthetic_clicks:
    {train_rows: 20000, validation_rows: 200, seed: 7, table_rows: [2000, 50]}
compression:
  table: {input_modes: [20, 100], output_modes: [2, 4], ranks: 3}
objective:
  early: {steps: 10, gamma: 0.0}
optimizer:
  {learning_rate_cores: 0.003, learning_rate_ranks: 0.001,
   learning_rate_other: 0.001}
training: {batch_size: 64, seed: 1}
resources: {device: cpu, processes: 1, threads_per_process: 1}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def base64url(data):
    if isinstance(data, str):
        data = data.encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def free_port():
    """A port that is free, also while its server restarts: it is below those
    from which the system chooses for everybody's connections."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Key:
    """A private key of RSA, made by the openssl program."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt",
             "rsa_keygen_bits:2048", "-out", path],
            check=True, capture_output=True)

    def json(self):
        """The key as a JSON Web Key with its private part."""
        code = ("process.stdout.write(JSON.stringify(require('crypto')"
                ".createPrivateKey(require('fs').readFileSync(process.argv[1]))"
                ".export({format: 'jwk'})))")
        done = subprocess.run(["node", "-e", code, self.path], check=True,
                              capture_output=True, text=True)
        return {**json.loads(done.stdout), "kid": self.name, "use": "sig",
                "alg": "RS256"}

    def public_pem(self):
        return subprocess.run(
            ["openssl", "pkey", "-in", self.path, "-pubout"], check=True,
            capture_output=True).stdout

    def sign(self, claims, **header):
        header = {"alg": "RS256", "typ": "JWT", "kid": self.name, **header}
        text = f"{base64url(json.dumps(header))}.{base64url(json.dumps(claims))}"
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self.path],
            input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{base64url(signature)}"


class Browser:
    """Follows redirects, keeps cookies, and fills in the issuer's forms."""

    def __init__(self, *handlers):
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(self.cookies), *handlers)

    def open(self, url, form=None, headers=None, method=None):
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(url, data, headers or {},
                                         method=method)
        try:
            with self.opener.open(request, timeout=60) as answer:
                return answer.status, answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.url, error.read().decode()

    def sign_in(self, url, user):
        """Signs in as the user; returns where that ended."""
        code, url, page = self.open(url)
        for _ in range(4):
            action = re.search(r'action="([^"]+)"', page)
            if code != 200 or not action or "/interaction/" not in action[1]:
                break
            prompt = re.search(r'name="prompt" value="(\w+)"', page)[1]
            code, url, page = self.open(
                urllib.parse.urljoin(url, action[1]),
                {"prompt": prompt, "login": user, "password": "any"})
        return code, url, page


class SignOnTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        installed = read(INSTALLED)
        if installed.startswith("absent"):
            raise AssertionError(installed)
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.processes = {}
        try:
            cls.key = Key(cls.path("one.pem"), "one")
            cls.http = f"127.0.0.1:{free_port()}"
            cls.issuer = cls.start_issuer(free_port())
            cls.start_server()
            cls.comera("queues", "create", "red", admin=True)
            cls.comera("queues", "create", "blue", admin=True)
            for queue in ("red", "blue"):
                write(cls.path(queue + ".yaml"), JOB.replace("QUEUE", queue))
        except BaseException:
            cls.show_logs()
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for name in list(cls.processes):
            cls.stop(name)
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
    def launch(cls, name, *arguments, **pipes):
        with open(cls.path(name + ".log"), "ab") as log:
            cls.processes[name] = subprocess.Popen(
                arguments, stderr=log, cwd=cls.folder,
                env={**os.environ, "HOME": cls.folder},
                **{"stdout": log, **pipes})
        return cls.processes[name]

    @classmethod
    def stop(cls, name):
        process = cls.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @classmethod
    def wait(cls, what, look, seconds=60):
        end = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > end:
                cls.show_logs()
                raise AssertionError("no " + what)
            time.sleep(0.1)

    @classmethod
    def start_issuer(cls, port):
        write(cls.path("keys.json"), json.dumps({"keys": [cls.key.json()]}))
        process = cls.launch(
            "issuer", "node",
            os.path.join(ROOT, "tests/security/oidc_issuer/issuer.mjs"),
            INSTALLED, str(port), cls.path("keys.json"),
            f"http://{cls.http}/v1/sso/callback", stdout=subprocess.PIPE)
        address = process.stdout.readline().decode().strip()
        process.stdout.close()
        if not address:
            raise AssertionError("the issuer does not start")
        return address

    @classmethod
    def start_server(cls):
        port = cls.path("port")
        if os.path.exists(port):
            os.remove(port)
        cls.launch(
            "server", os.path.join(ROOT, "server/comera-server"),
            "--listen=127.0.0.1:0", f"--http_listen={cls.http}",
            f"--port_file={port}", f"--data_dir={cls.path('state')}",
            f"--init_admin_token_file={cls.path('admin.token')}",
            f"--oidc_issuer={cls.issuer}", "--oidc_audience=cluster",
            "--oidc_client_id=comera", "--oidc_role=red-s=red:user",
            "--oidc_role=blue-s=viewer", "--oidc_role=chief-s=admin")
        cls.wait("server", lambda: os.path.exists(port) and read(port).strip())
        cls.address = read(port).strip()
        # The issuer's keys are there once no caller is told to come later.
        cls.wait("keys", lambda: cls.ask(cls.claims_of("red")) == 200)

    @classmethod
    def comera(cls, *arguments, admin=False, token=None, check=True):
        environment = {**os.environ, "HOME": cls.folder, "NO_COLOR": "1"}
        environment.pop("XDG_CONFIG_HOME", None)
        if admin:
            environment["COMERA_TOKEN_FILE"] = cls.path("admin.token")
        if token:
            environment["COMERA_TOKEN"] = token
        result = subprocess.run(
            [os.path.join(ROOT, "client/comera"), "--server", cls.address,
             *arguments],
            capture_output=True, text=True, cwd=cls.folder, env=environment)
        if check and result.returncode != 0:
            raise AssertionError(f"{arguments}: {result.stderr}")
        return result

    @classmethod
    def claims(cls, user="red", **changes):
        now = int(time.time())
        return {"iss": cls.issuer, "aud": "cluster", "sub": user, "iat": now,
                "exp": now + 600, "groups": [f"{user}-s"], **changes}

    @classmethod
    def claims_of(cls, user, **changes):
        return cls.key.sign(cls.claims(user, **changes))

    @classmethod
    def ask(cls, token, path="/v1/whoami"):
        """The HTTP code for the token."""
        code, _, cls.answer = Browser().open(
            f"http://{cls.http}{path}",
            headers={"Authorization": f"Bearer {token}"})
        return code

    def log_in(self, user, *flags):
        """comera login, with a browser that signs in as the user."""
        process = subprocess.Popen(
            [os.path.join(ROOT, "client/comera"), "--server", self.address,
             "login", "--issuer", self.issuer, "--client-id", "comera",
             "--no-browser", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "HOME": self.folder})
        url = process.stderr.readline().strip().split()[-1]
        outcome = {}
        thread = threading.Thread(
            target=lambda: outcome.update(end=Browser().sign_in(url, user)))
        thread.start()
        out, err = process.communicate(timeout=60)
        thread.join()
        self.assertEqual(process.returncode, 0, (out, err, outcome))
        self.assertIn("You are signed in", outcome["end"][2])
        return out

    def login_file(self):
        path = self.path(".config/comera/login.json")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        return json.loads(read(path))

    def test_a_group_has_its_role_on_its_queue_only(self):
        self.assertIn("oidc:red", self.log_in("red"))
        who = json.loads(self.comera("whoami", "-o", "json").stdout)
        self.assertEqual(who["user"], "oidc:red")
        self.assertEqual(who["token"]["queue_roles"], {"red": "ROLE_USER"})
        self.assertNotIn("role", who["token"])
        job = self.comera("submit", "red.yaml").stdout.strip()
        self.assertIn(job.split("/")[-1], self.comera("ls").stdout)
        refused = self.comera("submit", "blue.yaml", check=False)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("oidc:red may not use queue blue", refused.stderr)
        self.assertEqual(
            self.comera("queues", "create", "green", check=False).returncode, 4)
        # The same over HTTP, and with a token of another client.
        token = self.login_file()["token"]
        self.assertEqual(self.ask(token), 200)
        self.assertEqual(self.ask(token, "/v1/tokens"), FORBIDDEN)
        self.assertEqual(self.ask(self.claims_of("chief"), "/v1/tokens"), 200)
        audit = self.comera("audit", "--user", "oidc:red", admin=True).stdout
        self.assertIn("CreateJob", audit)
        self.comera("cancel", job, admin=True)

    def test_tokens_that_no_issuer_gives_are_refused(self):
        now = int(time.time())
        other = Key(self.path("other.pem"), self.key.name)
        unknown = Key(self.path("unknown.pem"), "nobody's")
        claims = self.claims()
        none = (f"{base64url(json.dumps({'alg': 'none'}))}."
                f"{base64url(json.dumps(claims))}.")
        # Signed with the issuer's public key as if that were a secret.
        text = (f"{base64url(json.dumps({'alg': 'HS256', 'kid': 'one'}))}."
                f"{base64url(json.dumps(claims))}")
        mac = hmac.new(self.key.public_pem(), text.encode(), hashlib.sha256)
        good = self.claims_of("red")
        bad = {
            "audience": self.claims_of("red", aud="other"),
            "issuer": self.claims_of("red", iss="https://evil.example"),
            "expired": self.claims_of("red", exp=now - 61),
            "early": self.claims_of("red", nbf=now + 600),
            "party": self.claims_of("red", aud=["cluster", "x"], azp="x"),
            "other key": other.sign(claims),
            "none": none,
            "none with a signature": none + good.split(".")[2],
            "HS256": f"{text}.{base64url(mac.digest())}",
            "claims of another": ".".join(
                [good.split(".")[0], base64url(json.dumps(
                    self.claims("chief"))), good.split(".")[2]]),
            "too long": self.claims_of("red", more="x" * 6000),
            "cut": good[:-10],
        }
        self.assertEqual(self.ask(good), 200)
        for name, token in bad.items():
            with self.subTest(name):
                self.assertEqual(self.ask(token), UNAUTHENTICATED, self.answer)
                called = self.comera("whoami", token=token, check=False)
                self.assertNotEqual(called.returncode, 0)
                # A token that is no header of ours is not even sent.
                self.assertIn(called.returncode, (1, 4), called.stderr)
        # A key that the issuer does not have: one look at the issuer's keys.
        token = unknown.sign(claims)
        codes = set()

        def refused():
            codes.add(self.ask(token))
            return UNAUTHENTICATED in codes

        self.wait("refusal", refused)
        self.assertLessEqual(codes, {UNAUTHENTICATED, LATER})

    def test_rotated_keys_are_fetched(self):
        old, before = self.claims_of("red"), self.key
        self.assertEqual(self.ask(old), 200)
        self.stop("issuer")
        # The keys that are known serve while the issuer is away.
        self.assertEqual(self.ask(self.claims_of("red")), 200)
        type(self).key = Key(self.path("two.pem"), "two")
        self.start_issuer(self.issuer.rpartition(":")[2])
        looks = read(self.path("REQUESTS")).count("GET /jwks")
        fresh = self.claims_of("red")
        codes = set()

        def taken():
            codes.add(self.ask(fresh))
            return 200 in codes

        self.wait("new key", taken)
        self.assertLessEqual(codes, {200, LATER})
        self.assertLessEqual(
            read(self.path("REQUESTS")).count("GET /jwks") - looks, 2)
        # What the old key had verified ended with it.
        self.assertIn(self.ask(old), (UNAUTHENTICATED, LATER))
        self.assertIn(self.ask(before.sign(self.claims())),
                      (UNAUTHENTICATED, LATER))

    def test_streams_end_with_the_token(self):
        job = self.comera("submit", "red.yaml", token=self.claims_of("red"))
        name = job.stdout.strip()
        # A minute after its end it is no longer taken: in ten seconds, so that
        # it is still taken when a busy machine comes to it.
        token = self.claims_of("red", exp=int(time.time()) - 50)
        url = f"http://{self.http}/v1/jobs/{name.split('/')[-1]}:watch"
        request = urllib.request.Request(
            url, headers={"Authorization": f"Bearer {token}",
                          "Accept": "text/event-stream"})
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=60) as stream:
            text = stream.read().decode()
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn("event: job", text)
        self.assertIn("UNAUTHENTICATED", text.partition("event: end")[2])
        self.assertEqual(self.ask(token), UNAUTHENTICATED)
        self.comera("cancel", name, admin=True)

    def test_browsers_sign_in(self):
        login = f"http://{self.http}/v1/sso/login"
        browser = Browser()
        self.assertIn(self.issuer,
                      browser.open(f"http://{self.http}/v1/sso")[2])
        for elsewhere in ("//evil.example", "https://evil.example", "\\\\evil",
                          "/\\evil.example", "jobs"):
            code, url, _ = browser.open(
                f"{login}?return={urllib.parse.quote(elsewhere)}")
            self.assertEqual(code, 400, (elsewhere, url))
        code, url, _ = browser.sign_in(f"{login}?return=/jobs%3Fq=1", "blue")
        self.assertEqual((code, url), (200, f"http://{self.http}/jobs?q=1"))
        cookies = {one.name: one for one in browser.cookies
                   if one.name.startswith("comera")}
        session = cookies["comera_session"]
        self.assertLess(len(session.value), 200)
        self.assertEqual(session._rest.get("SameSite"), "Strict")
        self.assertIn("HttpOnly", session._rest)
        self.assertNotIn("comera_sign_in", cookies)  # used up
        whoami = f"http://{self.http}/v1/whoami"
        code, _, answer = browser.open(whoami)
        self.assertEqual((code, json.loads(answer)["user"]), (200, "oidc:blue"))
        # The name of the session is no token, and nothing works without it.
        self.assertEqual(self.ask(session.value), UNAUTHENTICATED)
        self.assertEqual(Browser().open(whoami)[0], UNAUTHENTICATED)
        # It ends by sign-out, wherever the cookie was copied to.
        header = {"Cookie": f"comera_session={session.value}"}
        self.assertEqual(Browser().open(whoami, headers=header)[0], 200)
        code, _, _ = browser.open(
            f"http://{self.http}/v1/session", method="DELETE",
            headers={"Origin": f"http://{self.http}"})
        self.assertEqual(code, 204)
        self.assertEqual(Browser().open(whoami, headers=header)[0],
                         UNAUTHENTICATED)

    def test_others_cannot_finish_a_sign_in(self):
        login = f"http://{self.http}/v1/sso/login"

        class Stop(urllib.request.HTTPRedirectHandler):
            """Stops at this server's callback and keeps its URL."""
            url = None

            def redirect_request(self, request, file, code, message, headers,
                                 url):
                if "/v1/sso/callback" in url:
                    Stop.url = url
                    return None
                return super().redirect_request(request, file, code, message,
                                                headers, url)

        victim, attacker = Browser(), Browser(Stop())
        attacker.sign_in(login, "blue")
        self.assertIn("code=", Stop.url)
        # A link with the attacker's code signs nobody in as the attacker.
        code, _, answer = victim.open(Stop.url)
        self.assertEqual(code, 400)
        self.assertIn("state", answer)
        victim.open(login)
        code, _, answer = victim.open(Stop.url)
        self.assertEqual(code, 400)
        self.assertIn("state", answer)
        self.assertFalse([one for one in victim.cookies
                          if one.name == "comera_session"])
        # Nor does another state or no code.
        changed = re.sub(r"state=[^&]*", "state=x", Stop.url)
        self.assertEqual(attacker.open(changed)[0], 400)

    def test_sessions_end_when_the_server_restarts(self):
        browser = Browser()
        browser.sign_in(f"http://{self.http}/v1/sso/login", "blue")
        whoami = f"http://{self.http}/v1/whoami"
        self.assertEqual(browser.open(whoami)[0], 200)
        self.stop("server")
        self.start_server()
        self.assertEqual(browser.open(whoami)[0], UNAUTHENTICATED)

    def test_a_login_is_refreshed_before_its_token_ends(self):
        write(self.path("TTL"), "30")
        try:
            self.log_in("red")
            before = self.login_file()
            self.assertTrue(before["refresh_token"])
            write(self.path("TTL"), "3600")
            self.comera("whoami")
            after = self.login_file()
            self.assertNotEqual(before["token"], after["token"])
            # And not again, now that it is fresh.
            self.comera("whoami")
            self.assertEqual(self.login_file(), after)
            # Without the issuer the token serves as long as it lasts.
            after["refresh_token"] = "revoked"
            write(self.path(".config/comera/login.json"),
                  json.dumps({**after, "token": before["token"]}))
            stale = self.comera("whoami", check=False)
            self.assertEqual(stale.returncode, 0, stale.stderr)
            self.assertIn("sign in again with `comera login`", stale.stderr)
        finally:
            os.remove(self.path("TTL"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
