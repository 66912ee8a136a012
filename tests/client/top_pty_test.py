#!/usr/bin/python3
"""comera top and comera watch on a terminal: what is on the screen after which
key, and that the terminal is as before whatever ends the program."""
import fcntl
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

try:
    import pyte
except ImportError:
    print("SKIPPED: python3-pyte, which shows what a terminal would, is missing")
    sys.exit(0)

TMP = os.environ["TEST_TMPDIR"]
COMERA = os.path.abspath("client/comera")
SERVER = os.path.abspath("tests/client/fake_server")
PATIENCE = 20


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, arguments, columns=100, lines=24, environment=()):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", lines, columns, 0, 0))
        self.modes = termios.tcgetattr(slave)
        self.slave = slave
        variables = {"PATH": os.environ["PATH"], "HOME": TMP, "TERM": "screen"}
        variables.update(environment)
        self.process = subprocess.Popen(
            [COMERA, *arguments], stdin=slave, stdout=slave, stderr=slave,
            env=variables, start_new_session=True,
            preexec_fn=self.prepare)

    @staticmethod
    def prepare():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # Ends by signals leave no files.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def read(self, timeout):
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self.stream.feed(data)
        return True

    def text(self):
        return "\n".join(self.screen.display)

    def wait_for(self, wanted, gone=False):
        end = time.monotonic() + PATIENCE
        while (wanted in self.text()) == gone:
            if time.monotonic() > end:
                raise AssertionError("%s %r on\n%s" % (
                    "still" if gone else "no", wanted, self.text()))
            self.read(0.1)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", lines, columns, 0, 0))

    def end(self):
        """Its exit status; what it wrote is read first."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        while self.read(0.05):
            pass
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        data = os.path.join(TMP, "data")
        os.makedirs(data, exist_ok=True)
        cls.server = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", "--data_dir=" + data,
             "--port_file=" + os.path.join(TMP, "port")],
            stderr=subprocess.PIPE, text=True)
        cls.address = cls.server.stderr.readline().split()[-1]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.server.stderr.close()

    def start(self, *arguments, **more):
        terminal = Terminal([*arguments, "--server", self.address], **more)
        self.addCleanup(terminal.close)
        return terminal

    def assert_restored(self, terminal):
        self.assertTrue(terminal.raw.rstrip().endswith(b"\x1b[?1l\x1b>")
                        or b"\x1b[?1049l" in terminal.raw, terminal.raw[-200:])
        self.assertIn(b"\x1b[?1049h", terminal.raw)
        self.assertLess(terminal.raw.index(b"\x1b[?1049h"),
                        terminal.raw.rindex(b"\x1b[?1049l"))
        self.assertEqual(termios.tcgetattr(terminal.slave)[:4],
                         terminal.modes[:4])

    def test_keys_and_resizing(self):
        top = self.start("top")
        top.wait_for("left")
        top.wait_for("node-1")
        top.press("/nothing")
        top.wait_for("filter: nothing")
        top.wait_for("no job has that in it")
        top.press("\x1b")
        top.wait_for("left")
        top.press("\r")
        top.wait_for("jobs/left")
        top.press("\r")
        top.wait_for("jobs/left", gone=True)
        top.press("s")
        top.wait_for("by state")
        top.resize(40, 20)
        top.press("c")
        top.wait_for("cancel jobs/left? y: yes, n: no")
        top.press("n")
        top.wait_for("cancel jobs/left?", gone=True)
        self.assertLessEqual(max(map(len, top.screen.display)), 40)
        top.resize(120, 30)
        top.wait_for("c cancel  r rate")
        top.press("q")
        self.assertEqual(top.end(), 0)
        self.assert_restored(top)

    def test_every_end_gives_the_terminal_back(self):
        for end, status in [
                ("\x03", 130), (signal.SIGINT, 130), (signal.SIGTERM, 130),
                (signal.SIGSEGV, -signal.SIGSEGV),
                (signal.SIGABRT, -signal.SIGABRT),
                (signal.SIGQUIT, -signal.SIGQUIT),
                (signal.SIGHUP, -signal.SIGHUP)]:
            with self.subTest(end=end):
                top = self.start("top")
                top.wait_for("left")
                if isinstance(end, str):
                    top.press(end)
                else:
                    os.kill(top.process.pid, end)
                self.assertEqual(top.end(), status)
                self.assert_restored(top)

    def test_colours_by_the_usual_rules(self):
        top = self.start("top")
        top.wait_for("left")
        top.wait_for("in service")
        self.assertIn(b"\x1b[32m", top.raw)
        top = self.start("top", environment={"NO_COLOR": "1"})
        top.wait_for("in service")
        self.assertNotRegex(top.raw, rb"\x1b\[3[0-7]m")
        top.press("q")
        top.end()

    def test_terminals_without_a_screen_get_one_page(self):
        for name in ("dumb", "no-such-terminal"):
            top = self.start("top", environment={"TERM": name})
            self.assertEqual(top.end(), 0)
            self.assertIn(b"1 workers, 1 of 2 slots busy", top.raw)
            self.assertNotIn(b"\x1b[?1049h", top.raw)

    def test_watch_draws_plots_that_fit(self):
        watch = self.start("watch", "done", columns=70, lines=30)
        self.assertEqual(watch.end(), 0)
        self.assertIn("● validation".encode(), watch.raw)
        self.assertIn("⣿ training".encode(), watch.raw)
        watch = self.start("watch", "done", "--plain", columns=70, lines=30)
        self.assertEqual(watch.end(), 0)
        self.assertNotIn("⣿".encode(), watch.raw)
        self.assertIn(b"step 50/50", watch.raw)

    def test_tables_fit(self):
        for columns in (40, 60, 80):
            ls = self.start("ls", columns=columns, lines=24)
            self.assertEqual(ls.end(), 0)
            lines = [l.rstrip() for l in ls.screen.display if l.strip()]
            self.assertEqual(len(lines), 2, lines)  # nothing has wrapped
            self.assertTrue(lines[1].startswith("left"))


if __name__ == "__main__":
    unittest.main()
