#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Four processes share one table: made once, mapped by each, no copy.

    sharing.py                  # a table of the host pool, passed by descriptor: needs huge pages, the module's or not
    sharing.py --name table0    # a named variable, passed by its name: needs the module
"""
import argparse
import multiprocessing
import sys

import numpy

import hugepin

RANKS = 4


def work(rank, table, barrier, seen):
    """Each rank writes its own quarter, then all read all of it."""
    rows = table.array
    rows[rank::RANKS] += rank + 1
    barrier.wait(60)
    seen.put((rank, float(rows.sum(dtype="float64"))))


def expected(rows, columns):
    ranks = numpy.arange(rows) % RANKS + 1
    return float(ranks.sum()) * columns


def run(ctx, options):
    shape = (options.rows, options.columns)
    if options.name:
        shared = ctx.variable(options.name, shape, "float32")
        shared.array[:] = 0
    else:
        pool = ctx.pool("host")
        shared = hugepin.share(pool.zeros(shape, "float32"))
    spawn = multiprocessing.get_context("spawn")    # nothing is inherited but what is passed
    barrier, seen = spawn.Barrier(RANKS), spawn.SimpleQueue()
    workers = [spawn.Process(target=work, args=(rank, shared, barrier, seen)) for rank in range(RANKS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            sys.exit(f"sharing.py: a worker ended with {worker.exitcode}")
    sums = sorted(seen.get() for _ in workers)
    wanted = expected(*shape)
    if any(total != wanted for _, total in sums) or float(shared.array.sum(dtype="float64")) != wanted:
        sys.exit(f"sharing.py: {sums} instead of {wanted}")
    print(f"{RANKS} processes wrote to and read one table of {shared.array.nbytes} bytes: sum {wanted:.0f} in each")
    if options.name:
        ctx.unlink(options.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--name", help="of a variable")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=64)
    options = parser.parse_args()
    with hugepin.Context({"host_ladder": "kmod:2M,hugetlb:2M"}) as ctx:
        run(ctx, options)


if __name__ == "__main__":
    try:
        main()
    except hugepin.Error as reason:
        sys.exit(f"sharing.py: {reason.strerror}")
