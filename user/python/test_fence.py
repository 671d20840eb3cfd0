# SPDX-License-Identifier: MIT
"""Pinned memory that a device may still use is not used again before that has passed.

Run on the stand-in CUDA driver that TEST_CUDA names: work in its streams goes on until it is told that it is done.
"""
import ctypes
import gc
import os
import threading
import unittest

import hugepin
from testing import HERE, bare

STAND_IN = os.environ.get("TEST_CUDA") or os.path.join(HERE, "../../build/tests/loopback/libcuda.so.1")
POINTER, NUMBER, COUNT = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64


class Controls(ctypes.Structure):
    """struct loopback of tests/loopback/loopback.h."""

    _fields_ = [("reset", ctypes.CFUNCTYPE(None)),
                ("fail_nth", ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint, NUMBER)),
                ("fail_clear", ctypes.CFUNCTYPE(None)), ("limit", ctypes.CFUNCTYPE(None, COUNT)),
                ("delay", ctypes.CFUNCTYPE(None, ctypes.c_uint)), ("shutdown", ctypes.CFUNCTYPE(None, NUMBER)),
                ("capture", ctypes.CFUNCTYPE(None, NUMBER)), ("capture_broken", ctypes.CFUNCTYPE(NUMBER)),
                ("ledger", ctypes.CFUNCTYPE(None, POINTER)),
                ("is_registered", ctypes.CFUNCTYPE(NUMBER, POINTER, COUNT)),
                ("pins_really", ctypes.CFUNCTYPE(NUMBER)), ("devices", ctypes.CFUNCTYPE(None, ctypes.c_uint)),
                ("device_memory", ctypes.CFUNCTYPE(None, COUNT)), ("work", ctypes.CFUNCTYPE(None, POINTER)),
                ("done", ctypes.CFUNCTYPE(None, POINTER))]


class FenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """As a program's first CUDA call: the library then finds this driver, and a context in it."""
        cls.driver = ctypes.CDLL(STAND_IN, ctypes.RTLD_GLOBAL)
        cls.driver.loopback_get.restype = ctypes.POINTER(Controls)
        cls.device = cls.driver.loopback_get().contents
        assert cls.driver.cuInit(0) == 0
        assert cls.driver.cuDevicePrimaryCtxRetain(ctypes.byref(POINTER()), 0) == 0

    def setUp(self):
        self.ctx = hugepin.Context(bare(runtime="cuda", pinned_cap="16M"))
        self.pool = self.ctx.pool("pinned")

    def tearDown(self):
        self.device.fail_clear()
        self.device.done(None)
        gc.collect()
        self.pool.close()
        self.ctx.close()

    def stream(self):
        """A blocking one: its context is made current only for the call, as this thread has none."""
        made, ctx = POINTER(), POINTER()
        self.assertEqual(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0), 0)
        self.assertEqual(self.driver.cuCtxPushCurrent_v2(ctx), 0)
        self.assertEqual(self.driver.cuStreamCreate(ctypes.byref(made), 0), 0)
        self.assertEqual(self.driver.cuCtxPopCurrent_v2(ctypes.byref(ctx)), 0)
        return made.value

    def test_a_collected_block_waits_and_is_not_used_again(self):
        stream = self.stream()
        array = self.pool.empty(1000, "u1")
        address = array.ctypes.data
        self.device.work(stream)
        del array
        stats = self.pool.stats()
        self.assertEqual((stats.active_blocks, stats.deferred_bytes), (0, 1024))
        other = self.pool.empty(1000, "u1")
        self.assertNotEqual(other.ctypes.data, address)
        self.device.done(stream)
        self.assertTrue(self.pool.synchronize())
        self.assertEqual(self.pool.stats().deferred_bytes, 0)

    def test_only_the_streams_that_were_named_are_waited_for(self):
        mine, other = self.stream(), self.stream()
        self.pool.streams = [mine]
        self.assertEqual(self.pool.streams, (mine,))
        self.device.work(other)
        self.pool.empty(1000, "u1")
        self.pool.synchronize()
        self.assertEqual(self.pool.stats().deferred_bytes, 0)
        self.device.work(mine)
        self.pool.empty(1000, "u1")
        self.assertEqual(self.pool.stats().deferred_bytes, 1024)
        self.device.done(mine)
        self.pool.synchronize()
        self.assertEqual(self.pool.stats().deferred_bytes, 0)

    def test_a_stream_that_is_gone_means_everything(self):
        gone, busy = self.stream(), self.stream()
        self.assertEqual(self.driver.cuStreamDestroy_v2(POINTER(gone)), 0)
        self.pool.streams = [gone]
        self.device.work(busy)
        self.pool.empty(1000, "u1")
        stats = self.pool.stats()
        self.assertEqual((stats.active_blocks, stats.deferred_bytes), (0, 1024))

    def test_streams_are_handles(self):
        self.assertIsNone(self.pool.streams)
        self.pool.streams = []
        self.assertIsNone(self.pool.streams)
        self.assertRaises(TypeError, setattr, self.pool, "streams", ["a"])
        self.assertRaises(hugepin.Invalid, setattr, self.pool, "streams", [1 << 64])
        self.assertRaises(hugepin.Invalid, setattr, self.pool, "streams", [1, -1])
        self.assertIsNone(self.pool.streams)

    def test_memory_that_runs_out_is_waited_for(self):
        stream = self.stream()
        for _ in range(3):
            self.device.work(stream)
            self.pool.empty(10 << 20, "u1")
            timer = threading.Timer(0.05, self.device.done, (stream,))
            timer.start()
            self.pool.empty(10 << 20, "u1")
            timer.join()
        with self.assertRaises(hugepin.OutOfMemory):
            self.pool.empty(17 << 20, "u1")

    def test_trim_waits(self):
        stream = self.stream()
        self.device.work(stream)
        for _ in range(100):
            self.pool.empty(1000, "u1")
        timer = threading.Timer(0.05, self.device.done, (stream,))
        timer.start()
        self.assertGreater(self.pool.trim(), 0)
        timer.join()
        self.assertEqual(self.pool.stats().mapped_bytes, 0)

    def test_while_a_stream_is_captured_everything_waits_and_nothing_breaks(self):
        stream, graph = self.stream(), POINTER()
        self.assertEqual(self.driver.cuStreamBeginCapture_v2(POINTER(stream), 0), 0)
        self.pool.empty(10 << 20, "u1")
        with self.assertRaises(hugepin.OutOfMemory):
            self.pool.empty(10 << 20, "u1")
        self.assertFalse(self.pool.synchronize())
        with self.assertRaisesRegex(hugepin.InUse, "captured"):
            self.pool.close()
        self.assertFalse(self.pool.closed)
        self.assertFalse(self.device.capture_broken())
        self.assertEqual(self.driver.cuStreamEndCapture(POINTER(stream), ctypes.byref(graph)), 0)
        self.pool.empty(10 << 20, "u1")

    def test_the_last_array_of_a_closed_pool_waits(self):
        stream = self.stream()
        arrays = [self.pool.empty(1000, "u1") for _ in range(3)]
        arrays.pop()
        self.pool.close(defer=True)
        arrays.pop()
        self.assertIsNotNone(self.pool._handle.address)
        self.device.work(stream)
        timer = threading.Timer(0.05, self.device.done, (stream,))
        timer.start()
        arrays.pop()
        self.assertIsNone(self.pool._handle.address)
        timer.join()

    def test_a_closed_pool_that_could_not_wait_is_ended_with_its_context(self):
        stream, graph = self.stream(), POINTER()
        array = self.pool.empty(1000, "u1")
        self.pool.close(defer=True)
        self.assertEqual(self.driver.cuStreamBeginCapture_v2(POINTER(stream), 0), 0)
        del array
        self.assertIsNotNone(self.pool._handle.address)
        self.assertRaises(hugepin.InUse, self.ctx.close)
        self.assertEqual(self.driver.cuStreamEndCapture(POINTER(stream), ctypes.byref(graph)), 0)
        self.ctx.close()
        self.assertIsNone(self.pool._handle.address)

    def test_threads_that_wait_side_by_side(self):
        errors = []

        def work():
            try:
                for _ in range(300):
                    self.pool.empty(100_000, "u1")
            except BaseException as error:      # pylint: disable=broad-except
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.pool.synchronize()
        stats = self.pool.stats()
        self.assertEqual((stats.active_blocks, stats.deferred_bytes), (0, 0))

    def test_memory_that_no_device_knows_is_free_at_once(self):
        self.device.work(self.stream())
        with self.ctx.pool("host") as pool:
            pool.empty(1000, "u1")
            stats = pool.stats()
            self.assertEqual((stats.active_blocks, stats.deferred_bytes, stats.frees), (0, 0, 1))


if __name__ == "__main__":
    unittest.main()
