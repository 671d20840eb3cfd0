#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""An embedding table in a named variable: the training may be killed at any moment, and goes on from there.

    embedding.py --steps 1000           # kill -9 it, start it again: it goes on, and ends with the same bits
    embedding.py --steps 0              # what is there
    embedding.py --plain --steps 1000   # the same in ordinary memory, to compare with
    embedding.py --unlink

The memory of a named variable is the module's, so the table survives its process. What has to be added is that a step
is done or not done, whenever the kill comes: a journal, a variable too, keeps the rows as they were until all are
written, and one 8-byte store says that they are. The table begins as zeros, as a new variable does, so that there is no
initialisation that a kill could cut short.
"""
import argparse
import contextlib
import hashlib
import sys

import numpy

import hugepin

BATCH = 256             # rows a step touches, at most
RATE = 0.05


class Journal:
    """Rows as they were before the step under way.

    state is 2 * step while the table stands between steps, 2 * step + 1 while the rows of that step are being written.
    A process that is killed has done its stores in order, and another one sees them all.
    """

    def __init__(self, header, rows, before):
        self.header, self.rows, self.before = header, rows, before

    def recover(self, table):
        """Put back the rows of a step that was cut short, which is told, and say which step comes next."""
        state, count = int(self.header[0]), int(self.header[1])
        if state & 1:
            table[:, self.rows[:count]] = self.before[:, :count]
            self.header[0] = state - 1
        return state >> 1, bool(state & 1)

    def write(self, table, step, rows, after):
        count = len(rows)
        self.rows[:count] = rows
        self.before[:, :count] = table[:, rows]
        self.header[1] = count
        self.header[0] = 2 * step + 1
        table[:, rows] = after
        self.header[0] = 2 * step + 2


def train_step(table, journal, step):
    """One step of Adagrad towards a goal that only the row's number knows; the same bits on every run."""
    dice = numpy.random.default_rng(step)
    rows = numpy.unique(dice.integers(0, table.shape[1], BATCH))
    goal = numpy.sin(rows[:, None] + numpy.arange(table.shape[2])).astype("float32")
    weights, squares = table[:, rows]
    gradient = weights - goal + dice.normal(0, 0.1, goal.shape).astype("float32")
    squares += gradient * gradient
    weights -= numpy.float32(RATE) * gradient / numpy.sqrt(squares + numpy.float32(1e-8))
    journal.write(table, step, rows, numpy.stack((weights, squares)))


def take(options, make):
    """The table (weights and squared gradients) and its journal; make(name, shape, dtype) finds or makes an array."""
    table, found = make(options.name, (2, options.rows, options.columns), "float32")
    header, _ = make(options.name + ".journal", 2 + BATCH + BATCH * options.columns, "int64")
    before = header[2 + BATCH:].view("float32").reshape(2, BATCH, options.columns)
    return table, Journal(header[:2], header[2:2 + BATCH], before), found


def run(options, make):
    table, journal, found = take(options, make)
    step, cut_short = journal.recover(table)
    print(f"{'found' if found else 'made'} at step {step}" + ", which was cut short" * cut_short, flush=True)
    while step < options.steps:
        train_step(table, journal, step)
        step += 1
        if step % 100 == 0:
            print(f"step {step}", flush=True)
    print(f"step {step}: sha256 {hashlib.sha256(table).hexdigest()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--name", default="emb0", help="of the variable (emb0)")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000, help="to have done in the end")
    parser.add_argument("--plain", action="store_true", help="in ordinary memory")
    parser.add_argument("--unlink", action="store_true", help="remove the variable instead")
    options = parser.parse_args()
    if options.plain:
        return run(options, lambda name, shape, dtype: (numpy.zeros(shape, dtype), False))
    with hugepin.Context() as ctx:
        if not options.unlink:
            return run(options, ctx.variable)
        for name in (options.name, options.name + ".journal"):
            with contextlib.suppress(FileNotFoundError):
                ctx.unlink(name)
    return None


if __name__ == "__main__":
    try:
        main()
    except hugepin.Error as reason:
        sys.exit(f"embedding.py: {reason.strerror}")
