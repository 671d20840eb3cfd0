# SPDX-License-Identifier: MIT
"""Whole programs: the recorded training run replayed against allocators, and the run itself on huge pages."""

import json
import os
import random
import re
import subprocess
import time

import judge
import peers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
RECORDED = os.path.join(ROOT, "tools/trace/pytorch_train.hptrace.zst")
TRAIN = os.path.join(ROOT, "tools/trace/train.py")
PYTHON = "/usr/bin/python3"     # Debian's, which has Debian's torch

# What is put before the C library's malloc. memkind and DPDK do not offer themselves for that.
PRELOADED = {"mimalloc": "libmimalloc.so.2", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "tbb": "libtbbmalloc_proxy.so.2"}


def run(words, env=None):
    """What a program printed; an error with its last words."""
    result = subprocess.run(words, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    if result.returncode:
        said = (result.stderr or result.stdout).strip().splitlines()
        raise RuntimeError(said[-1] if said else f"{words[0]}: status {result.returncode}")
    return result.stdout


def replay(build, peer, env):
    backend = "hugepin" if peer == "hugepin" else "libc"
    if peer in PRELOADED:
        env = {**env, "LD_PRELOAD": PRELOADED[peer]}
    program = os.path.join(build, "bin/hugepin-trace-replay")
    return json.loads(run([program, "--json", "--backend", backend, RECORDED], env))


def contenders(variants, times):
    """Without those that took twice as long as the fastest peer: only the fastest counts, and they are slow."""
    limit = 2 * min(values[0] for (peer, _), values in times.items() if peer != "hugepin")
    return [v for v in variants if v[0] == "hugepin" or times[v[0], v[1]][0] <= limit]


def trace(build, repetitions, progress):
    """The time of the replay beside the peers', and how much more is mapped than live at the peak."""
    variants, left_out = peers.variants(["hugepin", "glibc", *PRELOADED])
    times, mapped = {}, {"hugepin": [], "glibc": []}
    for turn in range(repetitions):
        variants = contenders(variants, times) if turn else variants
        for peer, setting, env in random.sample(variants, len(variants)):
            progress(f"repetition {turn + 1} of {repetitions}, {peer} {setting}")
            result = replay(build, peer, env)
            times.setdefault((peer, setting), []).append(result["seconds"])
            if peer in mapped and setting == "default":
                mapped[peer].append(result["mapped_per_live"])
    values, settings = judge.fastest(times)
    return [judge.Row("trace", "PyTorch, time", 1, "s", values, target=1.0, settings=settings, left_out=left_out),
            judge.Row("trace", "PyTorch, peak", 1, "mapped/live", mapped, bound=1.05, left_out=left_out)]


def losses(text):
    return re.findall(r"step \d+: (?:loss|evaluation) (\d+\.\d+)", text)


def train(build, steps, repetitions, progress):
    """Seconds of the whole program, blocks from 1 MiB on from huge pages by the shim; the losses must be the same."""
    words = [PYTHON, TRAIN, "--steps", str(steps)]
    shim = [os.path.join(build, "bin/hugepinctl"), "run", "--quiet", "--host-threshold", "1M", "--"]
    variants = {"malloc": words, "hugepin": [*shim, *words]}
    env = {**os.environ, "HUGEPIN_HOST_LADDER": "kmod:1G+2M,kmod:2M,hugetlb:2M,thp"}
    seconds, seen = {"hugepin": [], "malloc": []}, set()
    for turn in range(repetitions):
        for who in random.sample(sorted(variants), len(variants)):
            progress(f"repetition {turn + 1} of {repetitions}, {who}")
            start = time.monotonic()
            text = run(variants[who], env)
            seconds[who].append(time.monotonic() - start)
            seen.add(tuple(losses(text)))
    if len(seen) != 1 or not all(seen):
        raise RuntimeError("the runs do not come to the same losses")
    return [judge.Row("train", f"PyTorch, {steps} steps", 2, "s", seconds)]


def train_missing():
    """Why the training cannot be run here, or None."""
    probe = subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.PIPE, check=False)
    return "no torch for " + PYTHON if probe.returncode else None
