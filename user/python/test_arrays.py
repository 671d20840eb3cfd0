# SPDX-License-Identifier: MIT
"""Arrays and tensors: what they look like, and that they are the pool's memory, not a copy."""
import ctypes
import itertools
import unittest

import numpy

import hugepin
from testing import PoolCase, bare, import_torch

torch = import_torch()


class ArrayTest(PoolCase):
    def test_shapes_dtypes_and_orders(self):
        shapes = (0, 1, 7, (3, 4), (2, 0, 5), (), [2, 3, 4], numpy.int64(5), (1, 1, 1, 9))
        dtypes = ("u1", "<f4", ">i8", "float64", "complex128", "bool", "S5", "U3", "M8[ns]", "f4,i8", "(2,3)f2")
        for shape, dtype, order in itertools.product(shapes, dtypes, "CF"):
            for make in (self.pool.empty, self.pool.zeros):
                array, like = make(shape, dtype, order), numpy.zeros(shape, dtype, order)
                self.assertIs(type(array), numpy.ndarray)
                self.assertEqual((array.shape, array.dtype), (like.shape, like.dtype))
                self.assertTrue(array.strides == like.strides or not array.size)
                self.assertTrue(array.flags.writeable and array.flags.aligned and not array.flags.owndata)
                array[...] = like
                numpy.testing.assert_array_equal(array, like)

    def test_default_dtype_is_numpys(self):
        self.assertEqual(self.pool.empty(3).dtype, numpy.empty(3).dtype)

    def test_zeros_are_zero_where_others_wrote(self):
        for _ in range(3):
            dirty = self.pool.empty(100_000, "u1")
            dirty[:] = 0xa5
            del dirty
            self.assertFalse(self.pool.zeros(100_000, "u1").any())

    def test_alignment(self):
        keep = []
        for alignment in (1, 64, 4096, 1 << 21, 1 << 30):
            keep.append(self.pool.empty(100, "u1", alignment=alignment))
            self.assertEqual(keep[-1].ctypes.data % max(alignment, 64), 0)
        with self.assertRaises(hugepin.Invalid):
            self.pool.empty(1, alignment=24)
        with self.assertRaises(hugepin.OutOfMemory):
            self.pool.empty(1, alignment=1 << 31)

    def test_numbers_that_do_not_fit_are_refused(self):
        self.pool.empty(100)
        mapped = self.pool.stats().mapped_bytes
        self.assertGreater(mapped, 0)
        for number in (-1, 1 << 64, (1 << 64) + 64, -(1 << 64)):
            for call in (lambda n=number: self.pool.trim(n), lambda n=number: self.pool.empty(1, alignment=n),
                         lambda n=number: self.pool.zeros(1, alignment=n)):
                with self.assertRaises(hugepin.Invalid) as caught:
                    call()
                self.assertIn(f" is {number}, ", caught.exception.strerror)
        self.assertEqual(self.pool.stats().mapped_bytes, mapped)
        self.assertEqual(self.pool.trim((1 << 64) - 1), 0)

    def test_blocks_do_not_overlap(self):
        arrays = [self.pool.empty(n, "u1") for n in (1, 63, 64, 65, 0, 0, 4096, 1 << 20)]
        ranges = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays)
        for (_, end), (start, _) in zip(ranges, ranges[1:]):
            self.assertLessEqual(end, start)

    def test_refused_arguments_take_nothing(self):
        refused = [(ValueError, -1, "f8"), (ValueError, (3, -2), "f8"), (TypeError, 1.5, "f8"), (TypeError, "3", "f8"),
                   (TypeError, 3, object), (TypeError, 3, "f4,O"), (ValueError, 3, "V0"), (TypeError, 3, "nonsense"),
                   (MemoryError, 1 << 62, "f8"), (MemoryError, 1 << 70, "f8"), (TypeError, None, "f8")]
        for error, shape, dtype in refused:
            with self.assertRaises(error, msg=(shape, dtype)):
                self.pool.empty(shape, dtype)
        with self.assertRaises(ValueError):
            self.pool.empty(3, order="K")
        self.assertEqual(self.pool.stats().allocs, 0)

    def test_views_share_the_block_and_its_books(self):
        array = self.pool.zeros((10, 10), "i4")
        views = [array[2:5], array.T, array.reshape(-1), array.view("u1"), array[::-1, ::2], memoryview(array),
                 numpy.frombuffer(array, "i4"), numpy.asarray(array), (ctypes.c_int * 100).from_buffer(array)]
        array[2, 2] = 77
        self.assertEqual(views[0][0, 2], 77)
        self.assertEqual(views[5][2, 2], 77)
        self.assertEqual(views[8][22], 77)
        views[6][0] = 78
        self.assertEqual(array[0, 0], 78)
        stats = self.pool.stats()
        self.assertEqual((stats.active_blocks, stats.requested_bytes), (1, 400))
        del array
        while views:
            self.assertEqual(self.pool.stats().active_blocks, 1)
            views.pop()
        self.assertEqual(self.pool.stats().active_blocks, 0)

    def test_results_of_arithmetic_are_no_blocks(self):
        array = self.pool.zeros(1000)
        results = [array + 1, array.copy(), array[[1, 2, 3]]]
        del array
        self.assertEqual(self.pool.stats().active_blocks, 0)
        self.assertEqual(results[0].sum(), 1000)

    def test_a_block_cannot_be_resized_under_its_array(self):
        array = self.pool.zeros(10)
        with self.assertRaises(ValueError):
            array.resize(20, refcheck=False)


class TensorTest(PoolCase):
    def test_every_dtype_without_a_copy(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16,
                      torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128):
            for shape in ((), 5, (0, 3), (2, 3, 4)):
                tensor = self.pool.torch_zeros(shape, dtype)
                self.assertEqual((tensor.dtype, tensor.shape), (dtype, torch.zeros(shape, dtype=dtype).shape))
                self.assertTrue(tensor.is_contiguous())
                if tensor.numel():
                    self.assertEqual(self.pool.stats().active_blocks, 1)
                    segment = self.pool.segments()[0]
                    self.assertTrue(segment.addr <= tensor.data_ptr() < segment.addr + segment.bytes)
                    self.assertEqual(torch.count_nonzero(tensor).item(), 0)
                del tensor

    def test_default_dtype_is_torchs(self):
        self.assertEqual(self.pool.torch_empty(3).dtype, torch.get_default_dtype())

    def test_every_way_between_numpy_and_torch_aliases(self):
        ways = {"from_numpy": torch.from_numpy, "from_dlpack": torch.from_dlpack, "as_tensor": torch.as_tensor,
                "frombuffer": lambda array: torch.frombuffer(array, dtype=torch.float32).reshape(array.shape)}
        for name, way in ways.items():
            array = self.pool.zeros((4, 5), "f4")
            tensor = way(array)
            self.assertEqual(tensor.data_ptr(), array.ctypes.data, name)
            array[1, 2] = 3
            tensor[3, 4] = 9
            self.assertEqual((tensor[1, 2].item(), array[3, 4]), (3, 9), name)
            del array
            back = tensor.numpy()
            del tensor
            self.assertEqual(self.pool.stats().active_blocks, 1, name)
            self.assertEqual(back[3, 4], 9)
            del back
            self.assertEqual(self.pool.stats().active_blocks, 0, name)

    def test_numpy_takes_a_tensor_by_dlpack(self):
        tensor = self.pool.torch_zeros((3, 3))
        array = numpy.from_dlpack(tensor)
        tensor[1, 1] = 5
        self.assertEqual(array[1, 1], 5)
        del tensor
        self.assertEqual(self.pool.stats().active_blocks, 1)

    def test_autograd_trains_in_the_pool(self):
        weight = self.pool.torch_zeros((8, 1)).requires_grad_()
        torch.manual_seed(1)
        x, y = torch.randn(64, 8), torch.randn(64, 1)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        before = weight.data_ptr()
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = ((x @ weight - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(weight.data_ptr(), before)


class NumbersTest(unittest.TestCase):
    def test_statistics_add_up_and_say_what_was_asked(self):
        with hugepin.Context(bare(host_cap="64M")) as ctx, ctx.pool("host") as pool:
            arrays = [pool.zeros(n, "u1") for n in (1000, 100_000, 5 << 20)]
            stats = pool.stats()
            self.assertEqual(stats.requested_bytes, 1000 + 100_000 + (5 << 20))
            self.assertEqual(stats.active_bytes - stats.requested_bytes, stats.wasted_bytes)
            self.assertEqual(stats.active_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes,
                             stats.mapped_bytes)
            self.assertEqual((stats.active_blocks, stats.allocs, stats.frees, stats.cap_bytes), (3, 3, 0, 64 << 20))
            self.assertEqual((stats.deferred_bytes, stats.registered_bytes), (0, 0))
            self.assertEqual(sum(segment.bytes for segment in pool.segments()), stats.mapped_bytes)
            del arrays
            self.assertEqual(pool.stats().frees, 3)
            self.assertEqual(pool.trim(), stats.mapped_bytes)
            self.assertEqual((pool.segments(), pool.stats().mapped_bytes), ([], 0))

    def test_a_segment_says_what_it_is(self):
        with hugepin.Context(bare()) as ctx, ctx.pool("pinned") as pool:
            array = pool.zeros(10)
            segment = pool.segment_of(array[3:])
            self.assertEqual((segment.provider, segment.page_bytes, segment.fd, segment.registered),
                             ("base", 4096, -1, "none"))
            self.assertEqual([segment], pool.segments())
            with self.assertRaises(hugepin.NotFound):
                pool.segment_of(numpy.zeros(3))


if __name__ == "__main__":
    unittest.main()
