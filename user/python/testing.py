# SPDX-License-Identifier: MIT
"""What the tests of hugepin.py share. TEST_LIBRARY names the library to test, else it is the build tree's."""
import contextlib
import gc
import os
import pickle
import sys
import unittest
import warnings

import hugepin

HERE = os.path.dirname(os.path.abspath(__file__))
OVERCOMMIT = "/proc/sys/vm/nr_overcommit_hugepages"

hugepin.load(os.environ.get("TEST_LIBRARY"))


def import_torch():
    """Debian's torch warns while it is imported, which is none of our business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch        # pylint: disable=import-outside-toplevel
    return torch


def bare(**options):
    """Options whatever the environment says: base pages only, no device."""
    values = {"runtime": "none", "host_ladder": "base", "pinned_ladder": "base", "variable_ladder": "base", **options}
    return hugepin.Options(values)


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@contextlib.contextmanager
def huge_pages(pages):
    """Lets the kernel make so many 2M pages when they are asked for, beyond its own pool."""
    with open(OVERCOMMIT, encoding="ascii") as file:
        before = file.read()
    try:
        with open(OVERCOMMIT, "w", encoding="ascii") as file:
            file.write(str(int(before) + pages))
    except PermissionError:
        raise unittest.SkipTest(f"needs {pages} huge pages, and {OVERCOMMIT} is root's to write") from None
    try:
        yield
    finally:
        with open(OVERCOMMIT, "w", encoding="ascii") as file:
            file.write(before)


def negate(shared, answers):
    """What a spawned worker does with an array that it was given."""
    before = shared.array.copy()
    shared.array[...] = -before
    answers.put((before.sum(), shared.array.shape, shared.array.strides))


def add_one(connection):
    """What a worker does with arrays that come to it while it runs."""
    while (shared := connection.recv()) is not None:
        shared.array += 1
        try:
            pickle.dumps(shared)
            connection.send("it can be passed on")
        except ValueError as error:
            connection.send(str(error))


class PoolCase(unittest.TestCase):
    """A host pool of base pages for each test, which must be given back in the end."""

    kind = "host"

    def setUp(self):
        self.ctx = hugepin.Context(bare())
        self.pool = self.ctx.pool(self.kind)

    def tearDown(self):
        gc.collect()
        self.assertEqual(self.pool.stats().active_blocks, 0)
        self.pool.close()
        self.ctx.close()


def run_python(code, *arguments):
    """Runs code in an interpreter of its own, as strict as this one, and returns (status, stdout, stderr)."""
    import subprocess       # pylint: disable=import-outside-toplevel
    environment = {**os.environ, "PYTHONPATH": HERE}
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", "import testing\n" + code, *arguments],
                          capture_output=True, text=True, env=environment, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr
