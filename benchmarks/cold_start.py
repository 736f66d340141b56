"""First result after installation: CPU seconds with an empty cache of compiled kernels.

Compilation dominates, and its speed differs from machine to machine. So the same run also measures the compile time of
a fixed reference kernel, and the target is a multiple of it: 15 s where the reference kernel takes 0.5 s.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from timing import leave, print_heading, print_table, progress, say, sized, verdict

TARGET = 30.0  # CPU time of the first result of `adaptive`, in compile times of the reference kernel
ARGUMENTS = ("--runs", "10", "--horizon", "20000", "--shares", "6", "--slots", "6")
REFERENCE = """
import time
import numpy as np
from numba import njit

@njit
def warm(x):
    return x + 1

@njit
def reference(matrix, vector):
    size = len(vector)
    root, found = np.zeros((size, size)), vector.copy()
    for k in range(size):
        for b in range(k, size):
            root[k, b] = matrix[k, b]
        for a in range(k):
            for b in range(k, size):
                root[k, b] -= root[a, k] * root[a, b]
        scale = np.sqrt(root[k, k])
        for b in range(k, size):
            root[k, b] /= scale
    for k in range(size):
        found[k] /= root[k, k]
        for b in range(k + 1, size):
            found[b] -= root[k, b] * found[k]
    return found

warm(1)  # numba loads its own parts at the first compilation
began = time.process_time()
reference(np.eye(3), np.ones(3))
print(time.process_time() - began)
"""


def reference_seconds() -> float:
    """Return the CPU seconds it takes to compile the reference kernel."""
    done = subprocess.run([sys.executable, "-c", REFERENCE], capture_output=True, text=True, check=True)
    return float(done.stdout)


def first_result_seconds(policy: str) -> float:
    """Return the CPU seconds of the first result of a policy, in a fresh process with an empty cache."""
    before = _children_seconds()
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "riskroute", "simulate", "--policy", policy, *ARGUMENTS]
        subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": cache}, capture_output=True, check=True)
    return _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    print_heading("First result with an empty cache", ("riskroute", "numba", "llvmlite"))
    rows, ratios = [], {}
    for policy in sized(("uniform", "rise", "adaptive"), ("uniform",)):
        reference, seconds = reference_seconds(), first_result_seconds(policy)
        ratios[policy] = seconds / reference
        rows.append([policy, f"{seconds:.1f}", f"{reference:.2f}", f"{ratios[policy]:.0f}"])
        progress(f"   {policy}: done")
    say("CPU seconds of the first result, of compiling the reference kernel, and their ratio")
    print_table(["policy", "first result", "reference", "ratio"], rows)
    holds = ratios.get("adaptive", 0.0) <= TARGET
    say(f"target: adaptive within {TARGET:g} compile times of the reference kernel: {verdict(holds)}")
    leave([], [holds])


if __name__ == "__main__":
    main()
