# SPDX-License-Identifier: MIT
"""Measures allocators by hugepin-bench: one process each, taking turns."""

import os
import random
import subprocess

import judge
import peers

HOPELESS = 4    # times as long as the fastest peer in the first turn: no more turns

GATHER = {"base pages": "base", "THP": "thp", "2M": "hugetlb:2M", "1G": "hugetlb:1G"}


class Worker:
    """One process, one allocator, one case; measures when told to."""

    def __init__(self, program, peer, setting, env, command):
        self.peer, self.setting, self.values = peer, setting, []
        self.process = subprocess.Popen([program, peer, *command], env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            self.fail()
        return text.strip()

    def fail(self):
        self.process.wait()
        said = self.process.stderr.read().strip().splitlines()
        raise RuntimeError(said[-1] if said else f"status {self.process.returncode}")

    def repeat(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.values.append(float(self.line()))

    def end(self):
        """Waits until the worker has freed and checked everything."""
        self.process.stdin.close()
        if self.process.wait():
            self.fail()


def contenders(workers):
    """Without those that cannot come to be the fastest peer: they would take most of the time."""
    limit = HOPELESS * min((w.values[0] for w in workers if w.peer != "hugepin"), default=0)
    return [w for w in workers if w.peer == "hugepin" or w.values[0] <= limit]


def take_turns(program, variants, commands, repetitions, progress):
    """Values by (peer, setting) of all that can, and why others have none."""
    workers, left_out = [], {}
    for peer, setting, env in variants:
        progress(f"{peer} {setting}: warming up")
        worker = Worker(program, peer, setting, env, commands(peer))
        try:
            while worker.line() != "ready":
                pass
            workers.append(worker)
        except RuntimeError as error:
            left_out[f"{peer} {setting}"] = str(error)
    for turn in range(repetitions):
        chosen = contenders(workers) if turn else workers
        for worker in random.sample(chosen, len(chosen)):
            progress(f"repetition {turn + 1} of {repetitions}, {worker.peer} {worker.setting}")
            worker.repeat()
    for worker in workers:
        worker.end()
    return {(w.peer, w.setting): w.values for w in workers}, left_out


def measure(program, case, names, repetitions, progress):
    """The row of a case."""
    variants, left_out = peers.variants(["hugepin"] if case.alone else names, **case.settings)
    if case.against != "all":
        variants = [v for v in variants if v[0] == "hugepin" or (v[1] == "default") == (case.against == "default")]
    measured, failed = take_turns(program, variants, case.command, repetitions, progress)
    values, settings = judge.fastest(measured)
    if "hugepin" not in values:
        raise RuntimeError(failed["hugepin default"])
    return judge.Row(case.bench, case.case, case.threads, case.unit, values, target=None if case.alone else case.target,
                     bound=case.bound, settings=settings, left_out={**left_out, **failed})


def holes(rows):
    """The last row, if it is of holes: judged as a multiple of what the first of them has."""
    if rows[-1].bench == "holes":
        rows[-1].bound = 1.5 * next(row for row in rows if row.bench == "holes").medians()[0]


def gather(program, table_bytes, operations, repetitions, progress):
    """Reads over a table on pages of each size, each provided by the library alone; rows of the two huge ones."""
    command = ["gather", f"min={table_bytes}", f"max={table_bytes}", f"operations={operations}"]
    variants = [("hugepin", name, {**os.environ, "HUGEPIN_HOST_LADDER": ladder}) for name, ladder in GATHER.items()]
    measured, left_out = take_turns(program, variants, lambda _: command, repetitions, progress)
    small = {name: measured["hugepin", name] for name in ("base pages", "THP") if ("hugepin", name) in measured}
    return [judge.Row("gather", f"{table_bytes >> 30} GiB, {name}", 1, "ns",
                      {"hugepin": measured["hugepin", name], **small}, left_out=left_out)
            for name in ("2M", "1G") if ("hugepin", name) in measured]
