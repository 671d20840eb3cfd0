# SPDX-License-Identifier: MIT
"""The kernel's own huge pages for as long as they are needed, and back to what was there."""

import contextlib
import fcntl
import os

KNOB = "/sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages"
SIZES = {"2M": 2048, "1G": 1 << 20}


def read(size):
    with open(KNOB.format(SIZES[size]), encoding="ascii") as f:
        return int(f.read())


def write(size, pages):
    with open(KNOB.format(SIZES[size]), "w", encoding="ascii") as f:
        f.write(str(pages))


@contextlib.contextmanager
def alone():
    """Nobody else who keeps to tests/unit/run's rule changes the number of pages meanwhile: behind the gate in turn."""
    folder = "/run/lock" if os.access("/run/lock", os.W_OK) else "/tmp"
    with open(f"{folder}/hugepin-tests.gate", "a", encoding="ascii") as gate, \
            open(f"{folder}/hugepin-tests.pool", "a", encoding="ascii") as pool:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(pool, fcntl.LOCK_EX)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))


@contextlib.contextmanager
def pages(wanted, left_bytes):
    """Adds so many pages of each size to the kernel's pool, 1G first; gives a text for each shortage.
    Nothing where this program may not, or where less than left_bytes of memory would be left."""
    before, short = {}, []
    if not wanted:
        yield short
        return
    try:
        for size, count in sorted(wanted.items()):
            if not os.access(KNOB.format(SIZES[size]), os.W_OK):
                short.append(f"{size} pages: only root can have them")
                continue
            room = max(available_bytes() - left_bytes, 0) // (SIZES[size] << 10)
            held = before[size] = read(size)
            write(size, held + min(count, room))
            if read(size) - held < count:
                short.append(f"{size} pages: {count} asked, {read(size) - held} got")
        yield short
    finally:
        for size, count in before.items():
            write(size, count)
