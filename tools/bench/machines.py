# SPDX-License-Identifier: MIT
"""Runs hugepin-bench-vm in virtual machines and makes rows of what it tells."""

import os
import re
import subprocess
import threading

import judge

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
KERNELS = ("6.1", "6.12", "7")
BENCHES = ("bringup", "bringup_dirty", "scrub", "pin", "register", "calls", "limits", "memory")
# Of zeroing and the rest none is far cheaper than the other: Documentation/performance.md, "Method: the module".
CPU = "max"
HUGETLB = ("hugetlb 2M", "hugetlb 1G")


def target(bench, case, kernel):
    """How a row is judged: keyword arguments of judge.Row."""
    if bench == "bringup":
        return {"target": 5000 if case == "1G" else 500, "against": HUGETLB}
    if bench == "bringup_dirty":
        return {"target": 1.0, "against": HUGETLB}
    if bench == "scrub":
        return {"target": 0.8, "rate": True}
    if bench == "pin":
        return {"target": None if kernel == "6.1" else 20, "against": ("base pages",)}
    if bench == "register":
        return {"target": 1.6}
    if bench == "limits":
        return {"bound": 1.5}
    return {}


def command(build, kernel, benches, gib, repetitions):
    program, stand_in = os.path.join(build, "bin/hugepin-bench-vm"), os.path.join(build, "tests/loopback")
    return [os.path.join(ROOT, "tools/vm/run"), "--cpu", CPU, "--nodes", "1", "--memory", f"{8 + 4 * gib}G",
            "--timeout", "1500", "--take", program, "--take", os.path.join(build, "lib"),
            "--take", os.path.join(stand_in, "libcuda.so.1"),
            "--env", f"LD_LIBRARY_PATH={build}/lib:{stand_in}", "--env", "LOOPBACK_CONTEXT=1", kernel, "--",
            program, "--gib", str(gib), "--repetitions", str(repetitions), *benches]


def watch(stream, progress, said):
    """What the machine says: progress, or something to keep."""
    for line in stream:
        text = re.sub(r"^progress: ", "", line.strip())
        if text != line.strip() or line.startswith("waiting:") or re.search(r"( …|: done, \d+ s)$", text):
            progress(text)
        else:
            said.append(text)


def measure(build, kernel, benches, gib, repetitions, progress, failures):
    """The rows of one kernel, and what was said on the way; what the machine failed at is added to failures."""
    said, found = [], {}
    progress("starting the machine")
    process = subprocess.Popen(command(os.path.abspath(build), kernel, benches, gib, repetitions), text=True,
                               errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    watcher = threading.Thread(target=watch, args=(process.stderr, progress, said))
    watcher.start()
    for line in process.stdout:
        bench, case, threads, unit, who, value = line.rstrip("\n").split("\t")
        found.setdefault((bench, case, int(threads), unit), {}).setdefault(who, []).append(float(value))
    watcher.join()
    if process.wait():
        failures.append(f"machine with {kernel}: " + ("; ".join(said) or f"status {process.returncode}"))
        said = []
    return [judge.Row(bench, f"{kernel}, {case}", threads, unit, values, **target(bench, case, kernel))
            for (bench, case, threads, unit), values in found.items()], said
