#!/usr/bin/env python3
"""Counts what the machine code of kernels consists of, and checks how it begins.

    machine_code.py [--hot=FILE] [--out=FILE] --probes=DIR FOLDER...

A FOLDER holds the cubins of one source (NAME_cubins of a cuda_library). Prints
a row for each kernel that a regular expression of --hot matches (as in
resources.py; without it, for all): products of tensor cores (HMMA), loads of
matrices for them (LDSM), other loads from shared memory (LDS), multiply-adds of
float32 (FFMA), loads and stores of device memory (LDG, STG), copies from there
to shared memory (LDGSTS), and all instructions. Instructions are counted as
they stand in the code; a loop's body counts once.

It fails if a kernel of compute capability 9.0 or more does not wait for the
kernels before it (WaitForEarlierKernels in kernels/cuda/device/ptx.h), if an
access to device memory, a branch, a call or an exit stands ahead of the wait (the
compiler could have moved an access there), and if a kernel of --hot with a
CudaPrecision among its template parameters uses no tensor cores.

No disassembler is needed. An instruction takes 16 bytes; its lowest 9 bits say
which it is, the next 3 where its operands come from, and the 4 behind them on
which predicate it depends. That this is so is proved by the kernels of --probes,
the code of machine_code_probes.cu.cc: each must hold the instruction that it is
named after, and an instruction of which few kernels have one must be in no other
probe. Exits 1 if something is wrong, 2 if it cannot tell.
"""
import argparse
import os
import struct
import sys

import resources

INSTRUCTIONS = {
    "HMMA": 0x03C,
    "LDSM": 0x03B,
    "LDS": 0x184,
    "FFMA": 0x023,
    "LDG": 0x181,
    "STG": 0x186,
    "LDGSTS": 0x1AE,
}
# What else touches device memory: loads and stores of addresses that may be of
# any kind, and atomic operations.
OTHER_ACCESSES = {
    "LD": 0x180,
    "ST": 0x185,
    "ATOMG": 0x1A8,
    "RED": 0x18E,
}
# What could lead around the wait.
JUMPS = {
    "BRA": 0x147,
    "CALL": 0x144,
    "EXIT": 0x14D,
}
WAIT = {"ACQBULK": 0x02E}
ALL = {**INSTRUCTIONS, **OTHER_ACCESSES, **JUMPS, **WAIT}
# Only the probe of its name holds one of these.
RARE = {"HMMA", "LDSM", "LDGSTS", "LD", "ST", "ATOMG", "RED", "CALL", "ACQBULK"}
LEAST_WAITING = 90  # compute capability, times 10
BEFORE_THE_WAIT = {name: ALL[name] for name in
                   ("LDG", "STG", "LDGSTS", *OTHER_ACCESSES, *JUMPS)}
ALWAYS = 7  # the predicate that is true
INSTRUCTION_BYTES = 16
PREFIX = ".text."


def kernels_of(folder):
    """(mangled name, architecture times 10, the lowest 16 bits of every
    instruction) of each kernel."""
    from elftools.elf.elffile import ELFFile  # python3-pyelftools

    names = [name for name in sorted(os.listdir(folder))
             if name.endswith(".cubin")]
    if not names:
        raise FileNotFoundError(f"{folder} holds no cubin")
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            elf = ELFFile(file)
            architecture = elf.header["e_flags"] >> 8 & 0xFF
            for section in elf.iter_sections():
                if not section.name.startswith(PREFIX):
                    continue
                code = section.data()
                yield (section.name[len(PREFIX):], architecture,
                       [struct.unpack_from("<H", code, at)[0]
                        for at in range(0, len(code), INSTRUCTION_BYTES)])


def count(code, instruction):
    return sum(word & 0x1FF == instruction for word in code)


def check_probes(folder):
    """What the probes show to be wrong about the tables above."""
    seen, wrong = set(), []
    for mangled, architecture, code in kernels_of(folder):
        name = resources.readable([mangled])[0].removeprefix("Probe")
        if name not in ALL:
            wrong.append(f"no instruction is called {name}")
            continue
        if name in WAIT and architecture < LEAST_WAITING:
            continue
        seen.add(name)
        if not count(code, ALL[name]):
            wrong.append(f"{name} is encoded in another way for "
                         f"sm_{architecture}")
        for other in RARE - {name}:
            if count(code, ALL[other]):
                wrong.append(f"{other} is encoded in another way for "
                             f"sm_{architecture}: Probe{name} has one")
    return wrong + [f"no probe of {name}" for name in sorted(set(ALL) - seen)]


def early(code):
    """What is wrong with the beginning of a kernel, or ""."""
    for word in code:
        if word & 0x1FF == WAIT["ACQBULK"] and word >> 12 == ALWAYS:
            return ""
        for name, instruction in BEFORE_THE_WAIT.items():
            if word & 0x1FF == instruction:
                return f"has {name} ahead of the wait for earlier kernels"
    return "does not wait for earlier kernels"


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
    for name, (_, architecture, code) in zip(names, kernels):
        if architecture >= LEAST_WAITING:
            if problem := early(code):
                found.append(f"{name} (sm_{architecture}) {problem}")
        if not hot or any(h.match(name) for h in hot):
            times = {i: count(code, INSTRUCTIONS[i]) for i in INSTRUCTIONS}
            rows.append([name, f"sm_{architecture}",
                         *(str(n) for n in (*times.values(), len(code)))])
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
