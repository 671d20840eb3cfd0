# SPDX-License-Identifier: MIT
"""Named variables, which need the module: in a virtual machine, as root, with a reserve of 2M pages on each node."""
import errno
import gc
import os
import multiprocessing
import pickle
import unittest

import numpy

import hugepin
from testing import negate, run_python

NAME = "test-variable"
SYSFS = "/sys/class/misc/hugepin"


def free_pages():
    total = 0
    for node in os.listdir(SYSFS):
        path = f"{SYSFS}/{node}/hugepages-2048kB/free_hugepages"
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                total += int(file.read())
    return total


class VariableTest(unittest.TestCase):
    def setUp(self):
        self.free = free_pages()
        self.ctx = hugepin.Context()
        self.assertRaises(FileNotFoundError, self.ctx.unlink, NAME)

    def tearDown(self):
        gc.collect()
        self.ctx.close()
        self.assertEqual(free_pages(), self.free)

    def test_a_new_one_is_zero_and_a_later_process_finds_it(self):
        table, found = self.ctx.variable(NAME, (1000, 300), "f4")
        self.assertFalse(found)
        self.assertFalse(table.any())
        table[:] = numpy.arange(table.size).reshape(table.shape)
        code = ("import hugepin, numpy\nwith hugepin.Context() as c:\n"
                f"  t, found = c.variable('{NAME}', (1000, 300), 'f4')\n"
                "  print(found, (t.ravel() == numpy.arange(t.size)).all()); t[0, 0] = 7")
        self.assertEqual(run_python(code), (0, "True True\n", ""))
        self.assertEqual(table[0, 0], 7)
        del table
        again = self.ctx.variable(NAME, (1000, 300), "f4")
        self.assertTrue(again.found)
        self.assertEqual(again.array[0, 0], 7)
        self.ctx.unlink(NAME)
        self.assertEqual(again.array[0, 0], 7)

    def test_another_size_is_refused_and_leaves_it(self):
        first = self.ctx.variable(NAME, 1000, "u1")
        with self.assertRaises(FileExistsError) as caught:
            self.ctx.variable(NAME, 5 << 20, "u1")
        self.assertIn(str(5 << 20), str(caught.exception))
        with self.assertRaises(hugepin.Invalid):
            self.ctx.variable(NAME, 0)
        self.assertFalse(first.array.any())
        self.ctx.unlink(NAME)

    def test_more_than_the_reserve_says_so(self):
        with self.assertRaises(MemoryError) as caught:
            self.ctx.variable(NAME, 64 << 30, "u1")
        self.assertEqual(caught.exception.errno, errno.ENOMEM)
        self.assertIn(str((64 << 30) >> 21), caught.exception.strerror)

    def test_a_variable_keeps_its_pool_and_context_as_an_array_does(self):
        with hugepin.Context() as ctx, ctx.pool("variable") as pool:
            view = pool.variable(NAME, 100, "i8").array[10:20]
            self.assertRaises(hugepin.InUse, pool.close)
            handles = pool._handle, ctx._handle
            self.assertEqual(pool.stats().requested_bytes, 800)
        view[:] = 5
        self.assertIsNotNone(handles[0].address)
        self.assertEqual(view.sum(), 50)
        del view
        self.assertEqual([handle.address for handle in handles], [None, None])
        self.assertEqual(self.ctx.variable(NAME, 100, "i8").array.sum(), 50)
        self.assertRaises(ValueError, ctx.variable, NAME, 100)
        self.ctx.unlink(NAME)

    def test_a_spawned_worker_opens_it_by_its_name(self):
        spawn = multiprocessing.get_context("spawn")
        variable = self.ctx.variable(NAME, (100, 50), "f8")
        variable.array[:] = 2
        answers = spawn.SimpleQueue()
        for shared, total in ((variable, 10000.0), (hugepin.share(variable.array[1::2, ::-1]), -5000.0)):
            worker = spawn.Process(target=negate, args=(shared, answers))
            worker.start()
            self.assertEqual(answers.get(), (total, shared.array.shape, shared.array.strides))
            worker.join()
        self.assertEqual((variable.array[0, 0], variable.array[1, 0]), (-2, 2))
        del shared
        self.ctx.unlink(NAME)

    def test_pickled_it_is_its_name_wherever_that_goes(self):
        variable = self.ctx.variable(NAME, 100)
        text = pickle.dumps(variable)
        again = pickle.loads(pickle.dumps(pickle.loads(text)))
        self.assertEqual((again.name, again.found), (NAME, True))
        again.array[3] = 4
        self.assertEqual(variable.array[3], 4)
        self.ctx.unlink(NAME)
        self.assertRaises(FileNotFoundError, pickle.loads, text)

    def test_a_name_that_means_something_smaller_now_is_refused(self):
        variable = self.ctx.variable(NAME, 5 << 20, "u1")
        text = pickle.dumps(variable)
        self.ctx.unlink(NAME)
        smaller = self.ctx.variable(NAME, 1, "u1")
        with self.assertRaises(hugepin.Error) as caught:
            pickle.loads(text)
        self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertEqual((variable.array[-1], smaller.array[0]), (0, 0))
        self.ctx.unlink(NAME)

    def test_a_forked_child_has_it_and_leaves_the_books_alone(self):
        variable = self.ctx.variable(NAME, 100, "i8")
        pid = os.fork()
        if pid == 0:
            variable.array[:] = 9
            del variable
            gc.collect()
            os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(variable.array.sum(), 900)
        self.ctx.unlink(NAME)

    def test_pools_take_the_modules_pages(self):
        for kind in ("host", "pinned"):
            with self.ctx.pool(kind) as pool:
                array = pool.zeros((1 << 20) + 1, "f4")
                self.assertEqual((pool.segment_of(array).provider, pool.stats().fallbacks > 1), ("kmod", False))
                shared = hugepin.share(array)
                self.assertGreaterEqual(len(hugepin._where(shared.array)[0]), 1)
                del array, shared


if __name__ == "__main__":
    unittest.main()
