# SPDX-License-Identifier: MIT
"""Other processes: children by fork read what they inherit and free nothing; spawned ones map what is shared."""
import errno
import gc
import multiprocessing
import os
import threading
import time
import unittest

import numpy

import hugepin
from testing import PoolCase, add_one, bare, huge_pages, import_torch, negate


def in_child(function):
    """Runs function in a forked child; its exit status: 0, or 1 with the traceback on stderr, or a signal."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        except BaseException:       # pylint: disable=broad-except
            import traceback        # pylint: disable=import-outside-toplevel
            traceback.print_exc()
        finally:
            os._exit(status)
    for _ in range(600):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hangs"


class ForkTest(PoolCase):
    def test_a_child_reads_what_it_inherits_and_frees_nothing(self):
        arrays = [self.pool.empty(10_000, "u1") for _ in range(10)]
        for mark, array in enumerate(arrays):
            array[:] = mark
        before = self.pool.stats()

        def child():
            for mark, array in enumerate(arrays):
                assert (array == mark).all()
            kept = arrays[3][5:50]
            del array
            arrays.clear()
            gc.collect()
            assert (kept == 3).all()

        self.assertEqual(in_child(child), 0)
        self.assertEqual(self.pool.stats(), before)
        for mark, array in enumerate(arrays):
            self.assertTrue((array == mark).all())

    def test_a_childs_calls_on_its_parents_objects_are_refused(self):
        def child():
            for call in (lambda: self.pool.empty(10), self.pool.stats, self.pool.trim, self.pool.synchronize,
                         lambda: self.ctx.pool("host"), lambda: self.ctx.unlink("x")):
                try:
                    call()
                except PermissionError as error:
                    assert error.errno == errno.EPERM and str(os.getppid()) in error.strerror, error
                else:
                    raise AssertionError(call)
            self.pool.close()               # quiet, and without consequence
            self.ctx.close(defer=True)

        self.assertEqual(in_child(child), 0)
        self.pool.empty(10)

    def test_a_child_waits_for_no_lock_of_its_parents_threads(self):
        locks = self.ctx._handle.lock, self.pool._handle.lock
        held, forked = threading.Event(), threading.Event()

        def hold():
            with locks[0], locks[1]:
                held.set()
                forked.wait()

        def child():
            for call in (self.pool.stats, lambda: self.ctx.pool("host")):
                self.assertRaises(PermissionError, call)
            arrays.clear()
            gc.collect()
            for closed in (self.pool, self.ctx):
                closed.close(defer=True)
                closed.close()

        arrays = [self.pool.zeros(100)]
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        try:
            self.assertEqual(in_child(child), 0)
        finally:
            forked.set()
            thread.join()
        self.assertEqual(self.pool.stats().active_blocks, 1)

    def test_a_child_makes_a_context_of_its_own(self):
        def child():
            with hugepin.Context(bare()) as ctx, ctx.pool("pinned") as pool:
                array = pool.zeros(1000)
                array[:] = 5
                assert pool.stats().active_blocks == 1
                del array
                assert pool.stats().active_blocks == 0

        array = self.pool.zeros(1000)
        self.assertEqual(in_child(child), 0)
        self.assertEqual(array.sum(), 0)

    def test_a_fork_while_other_threads_are_busy(self):
        stop = threading.Event()

        def work():
            while not stop.is_set():
                self.pool.zeros(3 << 20, "u1")
                self.pool.trim()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        array = self.pool.zeros(100)

        def child():
            assert not array.any()
            with hugepin.Context(bare()) as ctx, ctx.pool("host") as pool:
                pool.zeros(100)
            self.pool.close()
            self.ctx.close()
            gc.collect()

        try:
            self.assertEqual([in_child(child) for _ in range(20)], [0] * 20)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_loader_workers_read_the_dataset_in_the_pool(self):
        torch = import_torch()
        samples = torch.from_numpy(self.pool.empty((64, 32), "f4"))
        samples[:] = torch.arange(64).reshape(64, 1)

        class Samples(torch.utils.data.Dataset):
            def __len__(self):
                return len(samples)

            def __getitem__(self, index):
                gc.collect()
                return samples[index].clone(), torch.utils.data.get_worker_info().id

        loader = torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=2, multiprocessing_context="fork")
        seen, workers = [], set()
        for batch, ids in loader:
            seen += batch[:, 7].tolist()
            workers |= set(ids.tolist())
        self.assertEqual((seen, workers), ([float(n) for n in range(64)], {0, 1}))
        self.assertEqual(self.pool.stats().active_blocks, 1)

    def test_a_child_frees_nothing_behind_a_device_either(self):
        array = self.pool.zeros(1000)
        self.pool._handle.registered = True
        frees = self.pool.stats().frees

        def child(arrays=[array]):          # pylint: disable=dangerous-default-value
            arrays.clear()
            gc.collect()
            for call in (self.pool.synchronize, lambda: self.pool.empty(1)):
                try:
                    call()
                    os._exit(3)
                except PermissionError:
                    pass
            self.pool.close(defer=True)

        self.assertEqual(in_child(child), 0)
        self.assertEqual(self.pool.stats().frees, frees)
        del array, child


class SpawnTest(unittest.TestCase):
    def setUp(self):
        pages = huge_pages(16)
        pages.__enter__()           # pylint: disable=unnecessary-dunder-call
        self.addCleanup(pages.__exit__, None, None, None)
        self.ctx = hugepin.Context(bare(host_ladder="hugetlb:2M"))
        self.pool = self.ctx.pool("host")

    def tearDown(self):
        gc.collect()
        self.pool.close()
        self.ctx.close()

    def test_a_spawned_worker_has_the_same_memory(self):
        spawn = multiprocessing.get_context("spawn")
        for make in (lambda: self.pool.empty((50, 70), "f8"), lambda: self.pool.empty((50, 70), "f8", "F"),
                     lambda: self.pool.empty((101, 70), "f8")[1::2, ::-1],
                     lambda: self.pool.empty((600, 1000), "f8")[3:]):       # of several segments
            first = self.pool.zeros(100)            # so that the block is not the segment's first
            array = make()
            array[...] = numpy.arange(array.size).reshape(array.shape)
            answers = spawn.SimpleQueue()
            worker = spawn.Process(target=negate, args=(hugepin.share(array), answers))
            worker.start()
            self.assertEqual(answers.get(), (numpy.arange(array.size).sum(), array.shape, array.strides))
            worker.join()
            self.assertEqual(worker.exitcode, 0)
            numpy.testing.assert_array_equal(array, -numpy.arange(array.size).reshape(array.shape))
            self.assertFalse(first.any())

    def test_to_a_worker_that_runs_already(self):
        fork = multiprocessing.get_context("fork")
        here, there = fork.Pipe()
        worker = fork.Process(target=add_one, args=(there,))
        worker.start()                              # before the memory is there: nothing is inherited
        there.close()
        array = self.pool.zeros(1000, "i4")
        for turn in range(1, 4):
            here.send(hugepin.share(array))
            self.assertTrue(here.poll(30))
            self.assertIn("share it from the process that made it", here.recv())
            self.assertTrue((array == turn).all())
        here.send(None)
        worker.join()
        here.close()
        multiprocessing.resource_sharer.stop()

    def test_the_receiver_outlives_the_pool(self):
        array = self.pool.zeros(10)
        array[:] = 4
        pieces, *layout = hugepin._where(array)
        copy = hugepin._attach([(Arrived(fd), offset, nbytes) for fd, offset, nbytes in pieces], *layout)
        mapping = copy.array.ctypes.data
        del array
        self.pool.close()
        self.assertEqual(copy.array.sum(), 40)
        self.assertIn("hugetlbfs" if "hugepages" in maps_line(mapping) else "memfd:hugepin", maps_line(mapping))
        del copy
        self.assertEqual(maps_line(mapping), "")

    def test_what_cannot_be_shared_says_so(self):
        with hugepin.Context(bare()) as ctx, ctx.pool("host") as pool:
            with self.assertRaises(hugepin.Error) as caught:
                hugepin.share(pool.zeros(10))
            self.assertEqual(caught.exception.errno, errno.EOPNOTSUPP)
            self.assertIn("host_ladder", caught.exception.strerror)
            with self.assertRaises(ValueError):
                hugepin.share(numpy.zeros(10))
            with self.assertRaises(ValueError):
                hugepin.share(pool.zeros(10) + 1)
        with self.assertRaises(hugepin.NotFound):
            hugepin.share(self.pool.empty(0))


class Arrived:      # pylint: disable=too-few-public-methods
    """A descriptor on the receiver's side."""

    def __init__(self, fd):
        self.fd = fd

    def detach(self):
        return os.dup(self.fd)


def maps_line(address):
    """The line of this process's map for an address that is readable."""
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            start, end = (int(text, 16) for text in line.split()[0].split("-"))
            if start <= address < end and line.split()[1].startswith("r"):
                return line
    return ""


if __name__ == "__main__":
    unittest.main()
