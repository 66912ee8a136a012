#!/usr/bin/env python3
"""machine_code.py on the operation codes of kernels that no compiler made."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import machine_code  # pylint: disable=wrong-import-position

# With the predicate that is always true.
WAIT, LOAD, STORE, OTHER, PRODUCT = 0x782E, 0x7981, 0x7986, 0x7918, 0x723C
UNDER_A_PREDICATE = 0x082E
PROBES = [(f"Probe{name}", architecture, [OTHER, 0x7000 | instruction, OTHER])
          for name, instruction in machine_code.ALL.items()
          for architecture in (80, 90)]
GOOD = ("Good", 90, [OTHER, WAIT, LOAD, PRODUCT, PRODUCT, STORE])


class MachineCodeTest(unittest.TestCase):

    def run_on(self, kernels, probes=None, *flags):
        """(exit status, output, error output)."""
        folders = {"probes": PROBES if probes is None else probes,
                   "kernels": kernels}
        output, errors = io.StringIO(), io.StringIO()
        with mock.patch.object(machine_code, "kernels_of", folders.get), \
                mock.patch.object(sys, "argv", ["machine_code.py",
                                                "--probes=probes", *flags,
                                                "kernels"]), \
                contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            status = machine_code.main()
        return status, output.getvalue(), errors.getvalue()

    def test_instructions_are_counted(self):
        status, output, errors = self.run_on([GOOD])
        self.assertEqual((status, errors), (0, ""))
        cells = [c.strip() for c in output.splitlines()[2].split("|")[1:-1]]
        self.assertEqual(cells, ["Good", "sm_90", "2", "0", "0", "0", "1", "1",
                                 "0", "6"])

    def test_nothing_leads_around_the_wait(self):
        for name in ("LDG", "STG", "LDGSTS", "LD", "ST", "ATOMG", "RED", "BRA",
                     "CALL", "EXIT"):
            status, _, errors = self.run_on(
                [GOOD, ("Early", 90, [0x7800 | machine_code.ALL[name], WAIT])])
            self.assertEqual(status, 1)
            self.assertIn(f"Early (sm_90) has {name} ahead of the wait", errors)
            self.assertNotIn("Good", errors)
        self.assertEqual(
            self.run_on([("Half", 90, [UNDER_A_PREDICATE, STORE])])[0], 1)

    def test_a_kernel_that_never_waits_fails_from_sm_90_on(self):
        never = [OTHER, OTHER]
        self.assertEqual(self.run_on([("Never", 80, [LOAD])])[0], 0)
        status, _, errors = self.run_on([("Never", 90, never)])
        self.assertEqual(status, 1)
        self.assertIn("Never (sm_90) does not wait", errors)

    def test_a_hot_kernel_with_a_precision_needs_tensor_cores(self):
        code = [WAIT, LOAD, STORE]
        hot, other = (f"void comera::kernels::{name}<(comera::kernels::"
                      "CudaPrecision)2>()" for name in ("Hot", "Other"))
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as names:
            names.write("Hot\n")
            names.flush()
            flag = "--hot=" + names.name
            kernels = [(hot, 90, GOOD[2]), (other, 90, code)]
            self.assertEqual(self.run_on(kernels, PROBES, flag)[0], 0)
            status, output, errors = self.run_on([(hot, 90, code)], PROBES,
                                                 flag)
        self.assertEqual(status, 1)
        self.assertIn("Hot<(CudaPrecision)2> (sm_90) uses no tensor cores",
                      errors)
        self.assertNotIn("Other", output)

    def test_unknown_encodings_are_not_trusted(self):
        changed = [(name, architecture, [OTHER] if name == "ProbeHMMA" else codes)
                   for name, architecture, codes in PROBES]
        status, _, errors = self.run_on([GOOD], changed)
        self.assertEqual(status, 2)
        self.assertIn("HMMA is encoded in another way for sm_80", errors)
        common = PROBES + [("ProbeSTG", 90, [STORE, WAIT])]
        status, _, errors = self.run_on([GOOD], common)
        self.assertEqual(status, 2)
        self.assertIn("ACQBULK is encoded in another way for sm_90: ProbeSTG "
                      "has one", errors)
        missing = [probe for probe in PROBES if probe[0] != "ProbeRED"]
        status, _, errors = self.run_on([GOOD], missing)
        self.assertEqual(status, 2)
        self.assertIn("no probe of RED", errors)

    def test_nothing_to_read_is_no_success(self):
        self.assertEqual(self.run_on([])[0], 2)


if __name__ == "__main__":
    unittest.main()
