#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Workers by fork and by spawn over large objects, as a data loader has them. Each worker changes what it inherits."""
import multiprocessing
import subprocess
import sys

ROWS = 400_000
numbers = list(range(ROWS))                             # a block of pointers, 3 MB
names = {str(n): n for n in range(ROWS)}                # a table that a worker would grow in place
data = bytearray(b"x" * (8 << 20))


def work(n):
    """What the parent had, and then changes of the worker's own."""
    total = sum(numbers[n::4]) + names[str(n)] + data[n]
    numbers[n] = object()
    numbers.append(str(n))
    names[f"worker {n}"] = object()
    data[n] = 0
    data.extend(b"y" * (2 << 20))
    return total


def square(n):
    return len(bytes(3 << 20)) + n * n


def main():
    expected = [sum(numbers[n::4]) + n + ord("x") for n in range(4)]
    with multiprocessing.get_context("fork").Pool(4, maxtasksperchild=1) as pool:
        for _ in range(3):
            assert pool.map(work, range(4), chunksize=1) == expected
    assert numbers == list(range(ROWS))
    assert len(names) == ROWS and all(names[str(n)] == n for n in range(ROWS))
    assert data == b"x" * (8 << 20)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(square, range(4)) == [(3 << 20) + n * n for n in range(4)]
    assert subprocess.run([sys.executable, "-c", "print(len(bytes(4 << 20)))"], check=True, capture_output=True,
                          preexec_fn=lambda: None).stdout == b"4194304\n"
    print("ok")


if __name__ == "__main__":
    main()
