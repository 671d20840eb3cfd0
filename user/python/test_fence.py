# SPDX-License-Identifier: MIT
"""Pinned memory that a device may still use is not used again before its fence has passed.

Run on the stand-in CUDA driver that TEST_CUDA names, which registers but has no streams; what waits is given here.
"""
import ctypes
import gc
import os
import threading
import unittest

import hugepin
from testing import HERE, bare

STAND_IN = os.environ.get("TEST_CUDA") or os.path.join(HERE, "../../build/tests/loopback/libcuda.so.1")


def start_stand_in():
    """As a program's first CUDA call: the library then finds this driver, and a context in it."""
    driver = ctypes.CDLL(STAND_IN, ctypes.RTLD_GLOBAL)
    ctx = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0
    return driver


class FenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = start_stand_in()

    def setUp(self):
        self.waits = []
        self.answer = None
        self.ctx = hugepin.Context(bare(runtime="cuda", pinned_cap="16M"))
        self.pool = self.ctx.pool("pinned")
        self.pool.fence = self.fence

    def fence(self):
        self.waits.append(self.pool.stats().pending_blocks if not self.pool.closed else None)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def tearDown(self):
        self.answer = None
        gc.collect()
        self.pool.close()
        self.ctx.close()

    def test_a_collected_block_waits_and_is_not_used_again(self):
        array = self.pool.empty(1000, "u1")
        address = array.ctypes.data
        del array
        stats = self.pool.stats()
        self.assertEqual((stats.active_blocks, stats.pending_blocks, stats.pending_bytes), (1, 1, 1000))
        other = self.pool.empty(1000, "u1")
        self.assertNotEqual(other.ctypes.data, address)
        self.assertEqual(self.waits, [])
        self.assertTrue(self.pool.synchronize())
        self.assertFalse(self.pool.synchronize())
        self.assertEqual(len(self.waits), 1)
        self.assertEqual((self.pool.stats().active_blocks, self.pool.stats().pending_blocks), (1, 0))

    def test_one_wait_serves_all(self):
        for _ in range(100):
            self.pool.empty(1000, "u1")
        self.assertEqual(self.waits, [])
        self.assertGreater(self.pool.trim(), 0)
        self.assertEqual(len(self.waits), 1)
        self.assertEqual(self.pool.stats().mapped_bytes, 0)

    def test_enough_of_it_is_waited_for(self):
        self.pool.fence_bytes = 10_000
        for _ in range(50):
            self.pool.empty(1000, "u1")
        self.assertEqual(len(self.waits), 4)
        self.assertLessEqual(self.pool.stats().pending_bytes, 10_000)

    def test_memory_that_runs_out_is_waited_for(self):
        for _ in range(10):
            self.pool.empty(10 << 20, "u1")
        self.assertEqual(len(self.waits), 9)
        self.assertEqual(self.pool.stats().failed_allocs, 9)
        with self.assertRaises(hugepin.OutOfMemory):
            self.pool.empty(17 << 20, "u1")

    def test_not_now_leaves_everything_waiting(self):
        self.pool.empty(10 << 20, "u1")
        self.answer = False
        with self.assertRaises(hugepin.OutOfMemory):
            self.pool.empty(10 << 20, "u1")
        self.assertFalse(self.pool.synchronize())
        with self.assertRaises(hugepin.InUse) as caught:
            self.pool.close()
        self.assertIn("1 of them collected and waiting for the fence", str(caught.exception))
        self.assertEqual(self.pool.stats().pending_blocks, 1)

    def test_a_fence_that_fails_frees_nothing(self):
        self.pool.empty(1000, "u1")
        self.answer = ArithmeticError("the device fell off")
        for call in (self.pool.synchronize, self.pool.trim, self.pool.close):
            self.assertRaises(ArithmeticError, call)
        self.assertEqual(self.pool.stats().pending_blocks, 1)

    def test_without_a_fence_nothing_is_used_again(self):
        self.pool.empty(1000, "u1")
        self.pool.fence = None
        self.assertFalse(self.pool.synchronize())
        self.assertRaises(hugepin.InUse, self.pool.close)
        self.pool.fence = self.fence

    def test_the_last_array_of_a_closed_pool_waits(self):
        arrays = [self.pool.empty(1000, "u1") for _ in range(3)]
        arrays.pop()
        self.pool.close(defer=True)
        arrays.pop()
        self.assertEqual(self.waits, [])
        self.assertIsNotNone(self.pool._handle.address)
        arrays.pop()
        self.assertEqual(self.waits, [None])
        self.assertIsNone(self.pool._handle.address)

    def test_a_closed_pool_that_could_not_wait_is_ended_with_its_context(self):
        array = self.pool.empty(1000, "u1")
        self.pool.close(defer=True)
        self.answer = False
        del array
        self.assertIsNotNone(self.pool._handle.address)
        self.assertRaises(hugepin.InUse, self.ctx.close)
        self.answer = None
        self.ctx.close()
        self.assertIsNone(self.pool._handle.address)

    def test_threads_that_wait_side_by_side(self):
        self.pool.fence_bytes = 5000
        errors = []

        def work():
            try:
                for _ in range(300):
                    self.pool.empty(1000, "u1")
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
        self.assertEqual((stats.active_blocks, stats.pending_bytes), (0, 0))

    def test_other_pools_need_no_fence(self):
        with self.ctx.pool("host") as pool:
            pool.empty(1000, "u1")
            self.assertEqual((pool.stats().active_blocks, pool.stats().pending_blocks, pool.fence), (0, 0, None))

    def test_runtime_cuda_brings_its_own_fence(self):
        with self.ctx.pool("pinned") as pool:
            array = pool.empty(1000, "u1")
            self.assertIsInstance(pool.fence, hugepin._CudaFence)
            pool.fence = self.fence
            del array


class Driver:
    """A CUDA driver of three devices, the second without a context."""

    ACTIVE = (1, 0, 1)

    def __init__(self, current=None, fail=("", 0)):
        self.current, self.fail = [current] if current else [], fail
        self.modes, self.retained, self.waited = [], [], []

    def __getattr__(self, name):
        function = getattr(type(self), "do_" + name)

        def call(*arguments):
            if self.fail[0] == name:
                return self.fail[1]
            function(self, *(getattr(argument, "_obj", argument) for argument in arguments))
            return 0

        return call

    def do_cuThreadExchangeStreamCaptureMode(self, mode):
        self.modes.append(mode.value)
        mode.value = 0

    def do_cuCtxGetCurrent(self, ctx):
        ctx.value = self.current[-1] if self.current else None

    def do_cuDeviceGetCount(self, count):
        count.value = len(self.ACTIVE)

    def do_cuDeviceGet(self, device, ordinal):
        device.value = 10 + ordinal

    def do_cuDevicePrimaryCtxGetState(self, device, _, active):
        active.value = self.ACTIVE[device.value - 10]

    def do_cuDevicePrimaryCtxRetain(self, ctx, device):
        self.retained.append(device.value)
        ctx.value = 100 + device.value

    def do_cuDevicePrimaryCtxRelease_v2(self, device):
        self.retained.remove(device.value)

    def do_cuCtxPushCurrent_v2(self, ctx):
        self.current.append(ctx.value)

    def do_cuCtxPopCurrent_v2(self, ctx):
        ctx.value = self.current.pop()

    def do_cuCtxSynchronize(self):
        self.waited.append(self.current[-1])


class CudaFenceTest(unittest.TestCase):
    def test_every_context_that_exists_is_waited_for_and_none_is_made(self):
        driver = Driver()
        self.assertTrue(hugepin._CudaFence(driver)())
        self.assertEqual((driver.waited, driver.retained, driver.current), ([110, 112], [], []))
        driver = Driver(current=77)
        self.assertTrue(hugepin._CudaFence(driver)())
        self.assertEqual((driver.waited, driver.retained, driver.current), ([77, 110, 112], [], [77]))

    def test_captures_of_other_threads_are_left_alone(self):
        driver = Driver()
        hugepin._CudaFence(driver)()
        self.assertEqual(driver.modes, [2, 0])

    def test_what_the_driver_answers(self):
        for step in ("cuCtxGetCurrent", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxGetState",
                     "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxSynchronize"):
            for code, answer in ((3, True), (4, True), (900, False), (906, False)):
                driver = Driver(fail=(step, code))
                self.assertIs(hugepin._CudaFence(driver)(), answer, (step, code))
                self.assertEqual((driver.retained, driver.current, driver.modes), ([], [], [2, 0]), step)
            driver = Driver(fail=(step, 700))
            with self.assertRaisesRegex(hugepin.Error, "CUDA error 700"):
                hugepin._CudaFence(driver)()
            self.assertEqual((driver.retained, driver.current, driver.modes), ([], [], [2, 0]), step)


if __name__ == "__main__":
    unittest.main()
