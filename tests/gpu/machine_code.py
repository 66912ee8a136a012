#!/usr/bin/env python3
"""Counts what the machine code of kernels consists of, and checks how it begins.

    machine_code.py [--hot=FILE] [--out=FILE] --probes=DIR FOLDER...

A FOLDER holds the cubins of one source (NAME_cubins of a cuda_library). Prints
a row for each kernel that a regular expression of --hot matches (as in
resources.py; without it, for all): products of tensor cores (HMMA), loads of
matrices for them (LDSM), other loads from shared memory (LDS), multiply-adds of
float32 (FFMA), loads and stores of device memory (LDG, STG), copies from there
to shared memory (LDGSTS), and all instructions. These are instructions as they
stand in memory: a loop's body counts once.

Checks that every kernel of compute capability 9.0 or more waits for the kernels
before it (WaitForEarlierKernels in kernels/cuda/device/ptx.h) ahead of its
first access to device memory: the compiler could have moved one ahead. And that
every kernel of --hot with a CudaPrecision among its parameters uses tensor
cores.

No disassembler is needed. An instruction takes 16 bytes, and its lowest 12 bits
say which it is; that this is so is proved by the kernels of --probes, the code
of machine_code_probes.cu.cc, each of which must hold the instruction that it is
named after. Exits 1 if something is wrong, 2 if it cannot tell.
"""
import argparse
import os
import struct
import sys

from elftools.elf.elffile import ELFFile

import resources

# Twelve bits; the upper four tell where the operands come from.
INSTRUCTIONS = {
    "HMMA": {0x23C},
    "LDSM": {0x83B},
    "LDS": {0x384, 0x984},
    "FFMA": {0x223, 0x423, 0x623, 0x823, 0xA23, 0xC23, 0xE23},
    "LDG": {0x381, 0x981},
    "STG": {0x386, 0x986},
    "LDGSTS": {0xFAE},
}
# What else touches device memory: loads and stores of addresses that may be of
# any kind, and atomic operations.
OTHER_ACCESSES = {
    "LD": {0x380, 0x980},
    "ST": {0x385, 0x985},
    "ATOMG": {0x3A8, 0x9A8},
    "RED": {0x98E},
}
WAIT = {"ACQBULK": {0x82E}}
LEAST_WAITING = 90  # compute capability, times 10
ACCESSES = set().union(
    *(INSTRUCTIONS[name] for name in ("LDG", "STG", "LDGSTS")),
    *OTHER_ACCESSES.values())
INSTRUCTION_BYTES = 16
PREFIX = ".text."


def kernels_of(folder):
    """(mangled name, architecture times 10, operation codes) of each kernel."""
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".cubin"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            elf = ELFFile(file)
            architecture = elf.header["e_flags"] >> 8 & 0xFF
            for section in elf.iter_sections():
                if not section.name.startswith(PREFIX):
                    continue
                code = section.data()
                yield (section.name[len(PREFIX):], architecture,
                       [struct.unpack_from("<Q", code, at)[0] & 0xFFF
                        for at in range(0, len(code), INSTRUCTION_BYTES)])


def count(codes, wanted):
    return sum(code in wanted for code in codes)


def check_probes(folder):
    """What the probes show to be wrong about the tables above."""
    tables = {**INSTRUCTIONS, **OTHER_ACCESSES, **WAIT}
    seen, wrong = set(), []
    for mangled, architecture, codes in kernels_of(folder):
        name = resources.readable([mangled])[0].removeprefix("Probe")
        if name not in tables:
            wrong.append(f"no instruction is called {name}")
        elif name not in WAIT or architecture >= LEAST_WAITING:
            seen.add(name)
            if not count(codes, tables[name]):
                wrong.append(f"{name} is encoded in another way for "
                             f"sm_{architecture}")
    return wrong + [f"no probe of {name}" for name in sorted(set(tables) - seen)]


def early_access(codes):
    """What is wrong with the beginning of a kernel, or ""."""
    for code in codes:
        if code in WAIT["ACQBULK"]:
            return ""
        if code in ACCESSES:
            return (f"accesses device memory (operation {code:#x}) before it "
                    "waits for the kernels before it")
    return "does not wait for the kernels before it"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hot", help="expressions, one per line")
    parser.add_argument("--out", help="write the table here too")
    parser.add_argument("--probes", required=True,
                        help="cubins of machine_code_probes.cu.cc")
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    if wrong := check_probes(args.probes):
        for problem in wrong:
            print(f"machine_code.py: {problem}", file=sys.stderr)
        return 2
    hot = resources.read_hot(args.hot)[0] if args.hot else []
    rows, found = [], []
    kernels = [kernel for folder in args.folders for kernel in kernels_of(folder)]
    if not kernels:
        print("machine_code.py: no kernel in these folders", file=sys.stderr)
        return 2
    names = resources.readable([mangled for mangled, _, _ in kernels])
    for name, (_, architecture, codes) in zip(names, kernels):
        if architecture >= LEAST_WAITING:
            if problem := early_access(codes):
                found.append(f"{name} (sm_{architecture}) {problem}")
        if not hot or any(h.match(name) for h in hot):
            times = {i: count(codes, INSTRUCTIONS[i]) for i in INSTRUCTIONS}
            rows.append([name, f"sm_{architecture}",
                         *(str(n) for n in (*times.values(), len(codes)))])
            if hot and "(CudaPrecision)" in name and not times["HMMA"]:
                found.append(f"{name} (sm_{architecture}) uses no tensor cores")
    text = resources.markdown(
        [["kernel", "arch", *INSTRUCTIONS, "all"], *sorted(rows)])
    sys.stdout.write(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as out:
            out.write(text)
    for problem in found:
        print(f"machine_code.py: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
