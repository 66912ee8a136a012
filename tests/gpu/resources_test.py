#!/usr/bin/env python3
"""resources.py on reports of ptxas 13.0, whole and damaged."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "resources.py")

CLEAN = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6comera7kernels48_GLOBAL__N__209e241a_15_scale_add_cu_cc_b674047414ScaleAddKernelElfPKfPf' for 'sm_80'
ptxas info    : Function properties for _ZN6comera7kernels48_GLOBAL__N__209e241a_15_scale_add_cu_cc_b674047414ScaleAddKernelElfPKfPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 2048 bytes smem, 384 bytes cmem[0]
ptxas info    : Compile time = 11.368 ms
"""

# template <int N> __global__ void Twice(float*), Twice<4> and Twice<8>.
SPILLS = """ptxas info    : Compiling entry function '_Z5TwiceILi4EEvPf' for 'sm_90'
ptxas info    : Function properties for _Z5TwiceILi4EEvPf
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : Compiling entry function '_Z5TwiceILi8EEvPf' for 'sm_90'
ptxas info    : Function properties for _Z6calleePf
    0 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for _Z5TwiceILi8EEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 24 bytes cumulative stack size
"""

FRAME = """ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'
ptxas info    : Function properties for _Z1kPf
    400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 400 bytes cumulative stack size
"""


class ResourcesTest(unittest.TestCase):

    def run_on(self, reports, hot=None):
        """(exit status, output, error output, table written)."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for i, text in enumerate(reports):
                paths.append(os.path.join(folder, f"{i}.txt"))
                with open(paths[-1], "w", encoding="utf-8") as report:
                    report.write(text)
            arguments = []
            if hot is not None:
                arguments.append("--hot=" + os.path.join(folder, "hot"))
                with open(os.path.join(folder, "hot"), "w",
                          encoding="utf-8") as hot_list:
                    hot_list.write(hot)
            out = os.path.join(folder, "table.md")
            result = subprocess.run(
                [sys.executable, SCRIPT, "--out=" + out] + arguments + paths,
                capture_output=True, text=True, check=False)
            written = ""
            if os.path.exists(out):
                with open(out, encoding="utf-8") as table:
                    written = table.read()
            return result.returncode, result.stdout, result.stderr, written

    def test_table_tells_names_and_numbers(self):
        status, output, _, written = self.run_on([CLEAN])
        self.assertEqual(status, 0)
        self.assertEqual(output, written)
        cells = [c.strip() for c in output.splitlines()[2].split("|")[1:-1]]
        self.assertEqual(
            cells, ["ScaleAddKernel", "sm_80", "10", "2048", "0", "0", ""])

    def test_hot_kernel_without_spills_passes(self):
        status, output, errors, _ = self.run_on(
            [CLEAN], "# the hot ones\nScaleAdd\n\n")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("| hot |", output.splitlines()[2])

    def test_spill_of_a_hot_kernel_fails(self):
        status, _, errors, _ = self.run_on([CLEAN, SPILLS], "Twice<4>\n")
        self.assertEqual(status, 1)
        self.assertIn("Twice<4> (sm_90) spills 28 bytes", errors)

    def test_spill_of_a_called_function_fails(self):
        status, _, errors, _ = self.run_on([SPILLS], "Twice<8>\n")
        self.assertEqual(status, 1)
        self.assertIn("Twice<8> (sm_90) spills 4 bytes", errors)

    def test_spill_of_another_kernel_is_only_told(self):
        status, output, _, _ = self.run_on([CLEAN, SPILLS], "ScaleAdd\n")
        self.assertEqual(status, 0)
        self.assertIn("| 28 |", " ".join(output.split()))

    def test_stack_frame_of_a_hot_kernel_fails(self):
        status, _, errors, _ = self.run_on([FRAME], "k$\n")
        self.assertEqual(status, 1)
        self.assertIn("k (sm_90) uses a stack frame of 400 bytes", errors)

    def test_spill_of_a_named_architecture_is_only_told(self):
        for architecture, status in (("sm_90", 0), ("sm_120", 1)):
            with self.subTest(architecture):
                self.assertEqual(
                    self.run_on([SPILLS],
                                f"Twice\n{architecture} Twice<[48]>\n")[0],
                    status)

    def test_too_much_static_shared_memory_fails(self):
        for size, status in ((49152, 0), (49153, 1)):
            with self.subTest(size):
                report = CLEAN.replace("2048 bytes smem", f"{size} bytes smem")
                self.assertEqual(self.run_on([report])[0], status)

    def test_expression_without_a_kernel_fails(self):
        status, _, errors, _ = self.run_on([CLEAN], "ScaleAdd\nGone\n")
        self.assertEqual(status, 1)
        self.assertIn("no kernel matches 'Gone'", errors)

    def test_report_without_kernels_fails(self):
        self.assertEqual(self.run_on(["", "nothing\n"])[0], 2)

    def test_cut_report_fails(self):
        cut = "\n".join(CLEAN.splitlines()[:3]) + "\n"
        status, _, errors, _ = self.run_on([cut])
        self.assertEqual(status, 2)
        self.assertIn("said nothing of ScaleAddKernel", errors.replace(
            "_ZN6comera7kernels48_GLOBAL__N__209e241a_15_scale_add_cu_cc_"
            "b674047414ScaleAddKernelElfPKfPf", "ScaleAddKernel"))


if __name__ == "__main__":
    unittest.main()
