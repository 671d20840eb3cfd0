# SPDX-License-Identifier: MIT
"""Who keeps what alive: blocks, pools and contexts, in whatever order and by whomever they are let go."""
import collections
import gc
import itertools
import queue
import random
import signal
import threading
import unittest
import weakref

import hugepin
from testing import PoolCase, bare, import_torch, resident_bytes, run_python

torch = import_torch()


class Node:     # pylint: disable=too-few-public-methods
    """Something that can be part of a cycle."""


class OrderTest(unittest.TestCase):
    def test_every_order_of_letting_go(self):
        """Of an array, a slice, a tensor, a memoryview, the pool and the context: memory until the last of the four."""
        names = ("array", "slice", "tensor", "view", "pool", "ctx")
        for order in itertools.permutations(names):
            ctx = hugepin.Context(bare())
            pool = ctx.pool("host")
            array = pool.zeros(64, "i4")
            array[:] = 7
            handles = ctx._handle, pool._handle
            things = {"ctx": ctx, "pool": pool, "array": array, "slice": array[8:], "tensor": torch.from_numpy(array),
                      "view": memoryview(array)}
            del ctx, pool, array
            for position, name in enumerate(order):
                del things[name]
                for left in set(names[:4]) & set(things):
                    self.assertEqual(sum(things[left].tolist()), 7 * len(things[left]))
                over = not set(names[:4]) & set(order[position + 1:])
                self.assertEqual(handles[1].address is None, over and "pool" not in things, order[:position + 1])
            self.assertEqual([handle.address for handle in handles], [None, None], order)

    def test_a_cycle_of_everything(self):
        ctx = hugepin.Context(bare())
        pool = ctx.pool("host")
        node = Node()
        node.array, node.pool, node.ctx, node.self = pool.zeros(1000), pool, ctx, node
        handles = ctx._handle, pool._handle
        del ctx, pool, node
        self.assertIsNotNone(handles[1].address)
        gc.collect()
        self.assertEqual([handle.address for handle in handles], [None, None])

    def test_a_finalizer_in_a_cycle_still_finds_its_memory(self):
        """Whichever of a cycle's objects is finalized first, nobody else may have got the block by then."""
        seen = []

        class Reader(Node):
            def __del__(self):
                thief = other.empty(1 << 16, "u1")      # would be the same block, had it been given back
                thief[:] = 0xff
                seen.append(int(self.array.max()))
                try:
                    self.pool.empty(1)
                except ValueError:
                    seen.append("closed")

        ctx = hugepin.Context(bare())
        other = ctx.pool("host")
        for turn in range(20):
            first, second = Reader(), Node()
            first.peer, second.peer = second, first
            first.array = other.zeros(1 << 16, "u1")
            second.array, second.root = first.array[5:], first.array.base
            first.pool = ctx.pool("host")       # its own finalizer has run before
            if turn % 2:
                first, second = second, first
            del first, second
            gc.collect()
        self.assertEqual(seen, [0, "closed"] * 20)
        self.assertEqual(other.stats().active_blocks, 0)

    def test_a_finalizer_may_resurrect_an_array(self):
        saved = []

        class Phoenix(Node):
            def __del__(self):
                saved.append(self.array)

        with hugepin.Context(bare()) as ctx, ctx.pool("host") as pool:
            node = Phoenix()
            node.self, node.array = node, pool.zeros(100)
            del node
            gc.collect()
            self.assertEqual(pool.stats().active_blocks, 1)
            self.assertEqual(saved[0].sum(), 0)
            saved.clear()
            self.assertEqual(pool.stats().active_blocks, 0)

    def test_a_weak_reference_to_an_array_dies_with_it_and_not_before(self):
        with hugepin.Context(bare()) as ctx, ctx.pool("host") as pool:
            array = pool.zeros(10)
            reference = weakref.ref(array)
            self.assertIs(reference(), array)
            del array
            self.assertIsNone(reference())


class CloseTest(PoolCase):
    def test_close_refuses_under_live_arrays_with_numbers(self):
        arrays = [self.pool.zeros(1000, "u1"), self.pool.zeros(24, "u1")]
        with self.assertRaises(hugepin.InUse) as caught:
            self.pool.close()
        self.assertIsInstance(caught.exception, BufferError)
        self.assertIn("2 arrays of together 1024 bytes", str(caught.exception))
        self.assertFalse(self.pool.closed)
        arrays.append(self.pool.zeros(1))
        with self.assertRaises(hugepin.InUse):
            self.ctx.close()

    def test_a_deferred_close_ends_with_the_last_array(self):
        with self.ctx.pool("host") as pool:
            array = pool.zeros(1000)
            kept = array[10:20]
        self.assertTrue(pool.closed)
        for refused in (pool.stats, pool.trim, pool.segments, pool.synchronize, lambda: pool.empty(1)):
            self.assertRaises(ValueError, refused)
        with self.assertRaises(hugepin.InUse):
            pool.close()
        pool.close(defer=True)
        kept[:] = 3
        self.assertEqual(array.sum(), 30)
        del array
        self.assertIsNotNone(pool._handle.address)
        del kept
        self.assertIsNone(pool._handle.address)
        pool.close()

    def test_leaving_a_with_by_an_exception_raises_that(self):
        with self.assertRaises(ZeroDivisionError):
            with self.ctx.pool("host") as pool:
                array = pool.zeros(10)
                array[0] = 1 / 0

    def test_close_twice_is_once(self):
        pool = self.ctx.pool("pinned")
        pool.close()
        pool.close()
        pool.close(defer=True)

    def test_a_signal_handler_may_take_memory(self):
        kept = collections.deque(maxlen=10)

        def handler(*_):
            kept.append(self.pool.zeros(100))
            self.pool.synchronize()

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            for _ in range(3000):
                self.pool.zeros(50)
                with self.ctx.pool("host") as pool:
                    pool.synchronize()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(len(kept), 0)


class ChurnTest(PoolCase):
    STEPS = 10_000

    def setUp(self):
        super().setUp()
        self.ways = (lambda nbytes: self.pool.empty(nbytes, "u1"), lambda nbytes: self.pool.zeros(nbytes, "u1"),
                     lambda nbytes: torch.from_numpy(self.pool.empty(nbytes, "u1")),
                     lambda nbytes: self.pool.torch_empty(nbytes, torch.uint8))

    def step(self, live, dice):
        """Create, slice, delete or collect. What is live holds its own mark in every byte."""
        kind = dice.random()
        if kind < 0.45 or not live:
            mark = dice.randrange(256)
            nbytes = dice.choice((0, 1, 64, 100, 4096, dice.randrange(1 << 18)))
            array = dice.choice(self.ways)(nbytes)
            array[:] = mark
            live.append((mark, array))
        elif kind < 0.65:
            mark, array = dice.choice(live)
            start = dice.randrange(len(array) + 1)
            live.append((mark, array[start:start + dice.randrange(1000)]))
        elif kind < 0.95:
            mark, array = live.pop(dice.randrange(len(live)))
            self.assertTrue(bool((array == mark).all()))
            if dice.random() < 0.3:         # let the collector have it
                node = Node()
                node.self, node.array = node, array
        else:
            gc.collect(dice.randrange(3))

    def test_random_steps_leak_nothing(self):
        dice = random.Random(6)
        live = []
        gc.collect()
        finalizers = len(weakref.finalize._registry)
        for number in range(self.STEPS):
            self.step(live, dice)
            if len(live) > 300:
                live.pop(0)
            if number == self.STEPS // 4:
                gc.collect()
                resident, objects = resident_bytes() - self.pool.stats().mapped_bytes, len(gc.get_objects())
        for mark, array in live:
            self.assertTrue(bool((array == mark).all()))
        gc.collect()
        grown = resident_bytes() - self.pool.stats().mapped_bytes - resident
        self.assertLess(grown, 4 << 20)
        self.assertLess(len(gc.get_objects()) - objects, 500)
        live.clear()
        del array
        gc.collect()
        stats = self.pool.stats()
        self.assertEqual((stats.active_blocks, stats.active_bytes, stats.allocs), (0, 0, stats.frees))
        self.assertEqual(stats.free_bytes + stats.cached_bytes, stats.mapped_bytes)
        self.assertEqual(len(weakref.finalize._registry), finalizers)
        self.assertEqual(self.pool._handle.users, {})

    def test_pools_that_come_and_go_leak_nothing(self):
        for turn in range(400):
            if turn == 100:
                gc.collect()
                resident = resident_bytes()
            with hugepin.Context(bare()) as ctx, ctx.pool("host") as pool:
                array = pool.zeros(1 << 16)
                array[:] = turn
        del array
        self.assertLess(resident_bytes() - resident, 4 << 20)


class ThreadTest(PoolCase):
    def setUp(self):
        super().setUp()
        self.threshold = gc.get_threshold()
        gc.set_threshold(3)

    def tearDown(self):
        gc.set_threshold(*self.threshold)
        super().tearDown()

    def run_threads(self, *functions):
        errors = []

        def guarded(function):
            try:
                function()
            except BaseException as error:      # pylint: disable=broad-except
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        self.assertEqual(errors, [])

    def test_arrays_taken_in_one_thread_die_in_another(self):
        lanes = [queue.Queue(10) for _ in range(3)]

        def take(lane, seed):
            dice = random.Random(seed)
            for _ in range(400):
                mark = dice.randrange(256)
                node = Node()
                node.self, node.mark, node.array = node, mark, self.pool.empty(dice.randrange(1, 1 << 14), "u1")
                node.array[:] = mark
                lane.put(node)
            lane.put(None)

        def let_go(lane):
            while (node := lane.get()) is not None:
                assert (node.array == node.mark).all()

        self.run_threads(*(lambda lane=lane: take(lane, id(lane)) for lane in lanes),
                         *(lambda lane=lane: let_go(lane) for lane in lanes))

    def test_a_pool_closed_under_other_threads(self):
        for _ in range(30):
            pool = self.ctx.pool("host")
            start = threading.Barrier(4)

            def take(pool=pool, start=start):
                start.wait()
                kept = collections.deque(maxlen=3)
                while not pool.closed:
                    try:
                        kept.append(pool.zeros(5000))
                    except ValueError:
                        pass
                assert all(not array.any() for array in kept)

            def close(pool=pool, start=start):
                start.wait()
                pool.close(defer=True)

            self.run_threads(take, take, take, close)
            gc.collect()
            self.assertIsNone(pool._handle.address)


class ExitTest(unittest.TestCase):
    """Exit in any order is quiet, and nothing that is alive loses its memory."""

    ENDS = {
        "arrays in globals": "",
        "a cycle": "node = type('N', (), {})(); node.a, node.p, node.s = a, pool, node; del a, pool, ctx",
        "in the middle of a with": "ctx2 = hugepin.Context(testing.bare())\nwith ctx2, ctx2.pool('host') as p:\n"
                                   "    b = p.zeros(10); raise SystemExit(0)",
        "the module gone first": "import sys; del sys.modules['hugepin'], hugepin, testing",
        "an atexit handler reads": "import atexit; atexit.register(lambda: print(int(a.sum())))",
        "a finalizer reads at the end": "class F:\n    def __del__(self, a=a): assert a[5] == 0\nf = F(); f.f = f",
        # One long write: with many short ones Python 3.11 itself may look for the state of a thread that is gone.
        "a daemon thread writes": "import ctypes, threading, time\nb = pool.zeros(1 << 29, 'u1')\n"
                                  "threading.Thread(target=ctypes.memset, args=(b.ctypes.data, 1, b.nbytes), "
                                  "daemon=True).start()\nwhile not b[0]: time.sleep(0.001)",
        "a tensor": "torch = testing.import_torch(); t = pool.torch_zeros(10); u = torch.from_numpy(a)",
        "a log": "import logging; logging.basicConfig(level=1); hugepin.log_to(logging.getLogger(), logging.ERROR)",
    }

    def test_exits_are_quiet(self):
        for name, code in self.ENDS.items():
            status, out, err = run_python("import hugepin\nctx = hugepin.Context(testing.bare())\n"
                                          "pool = ctx.pool('host')\na = pool.zeros(1000, 'u1')\n" + code)
            self.assertEqual((status, err), (0, ""), name)
            self.assertEqual(out, "0\n" if "atexit" in name else "", name)


if __name__ == "__main__":
    unittest.main()
