# SPDX-License-Identifier: MIT
"""Options, errors and the log: what the library says comes through whole."""
import errno
import gc
import logging
import os
import pickle
import tempfile
import threading
import unittest

import hugepin
from testing import PoolCase, bare, run_python


class OptionsTest(unittest.TestCase):
    def test_every_option_takes_its_own_value_back(self):
        options = hugepin.Options()
        infos = list(options)
        self.assertGreater(len(infos), 10)
        for info in infos:
            self.assertEqual((info.source, info.value), ("default", info.default_value))
            self.assertTrue(info.doc and info.type and info.dialect, info)
            one = hugepin.Options({info.name: info.value})
            self.assertEqual(one[info.name], info.value)
            self.assertEqual(one.info(info.name).source, "API")
            self.assertEqual(options.info(info.name), info)

    def test_python_values(self):
        options = hugepin.Options({"pinned_cap": 64 << 20, "host_ladder": ["hugetlb:2M", "base"],
                                   "register_threads": True,
                                   "FLAGS_fraction_of_cuda_pinned_memory_to_use": 0.25})
        self.assertEqual(options["pinned_cap"], str(64 << 20))
        self.assertEqual(options["host_ladder"], "hugetlb:2M,base")
        self.assertEqual(options["register_threads"], "1")
        self.assertEqual(float(options["FLAGS_fraction_of_cuda_pinned_memory_to_use"]), 0.25)

    def test_what_is_refused_leaves_the_set_as_it_was(self):
        options = hugepin.Options({"pinned_cap": "1G"})
        for key, value, error, number in (("pinned_cap", "1X", hugepin.Invalid, errno.EINVAL),
                                          ("register_threads", 65, hugepin.Invalid, errno.EINVAL),
                                          ("pinned_cop", "1", hugepin.NotFound, errno.ENOENT)):
            with self.assertRaises(error) as caught:
                options[key] = value
            self.assertEqual(caught.exception.errno, number)
            self.assertIn(key, caught.exception.strerror)
        with self.assertRaises(ValueError):
            options["mount"] = "a\0b"
        self.assertEqual([info.name for info in options if info.source != "default"], ["pinned_cap"])

    def test_files_and_the_environment_in_their_order(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("pinned_cap = 1M\nhost_cap = 2M\nvariable_cap = 3M\n")
            file.flush()
            os.environ["HUGEPIN_HOST_CAP"] = "20M"
            try:
                options = hugepin.Options({"variable_cap": "30M"}, environment=True)
            finally:
                del os.environ["HUGEPIN_HOST_CAP"]
            options.load_file(file.name)
            self.assertEqual([(options[k], options.info(k).source) for k in ("pinned_cap", "host_cap", "variable_cap")],
                             [("1M", file.name + ":1"), ("20M", "environment"), ("30M", "API")])
            file.write("nonsense = 1\n")
            file.flush()
            with self.assertRaises(hugepin.NotFound) as caught:
                options.load_file(file.name)
            self.assertIn(file.name + ":4", caught.exception.strerror)
        with self.assertRaises(FileNotFoundError):
            options.load_file("/nonexistent")

    def test_bytes_that_are_no_utf8_come_through_as_paths_do(self):
        os.environb[b"HUGEPIN_MOUNT"] = b"/\xff"
        try:
            options = hugepin.Options(environment=True)
        finally:
            del os.environb[b"HUGEPIN_MOUNT"]
        self.assertEqual(os.fsencode(options["mount"]), b"/\xff")
        self.assertEqual([info.value for info in options if info.name == "mount"], [options["mount"]])
        options["mount"] = options["mount"] + "\udcfe"
        self.assertEqual(os.fsencode(options["mount"]), b"/\xff\xfe")
        with hugepin.Context(options) as ctx:
            self.assertEqual(ctx.mount, options["mount"])

    def test_a_mapping_is_set_over_the_environment_and_a_set_is_taken_as_it_is(self):
        code = ("import hugepin\nfor o in (None, {'host_cap': '4M'}, hugepin.Options({'host_cap': '8M'})):\n"
                "  with hugepin.Context(o) as c: print(c.mount, c.pool('host').stats().cap_bytes)")
        os.environ.update(HUGEPIN_HOST_CAP="2M", HUGEPIN_MOUNT="/elsewhere")
        try:
            self.assertEqual(run_python(code), (0, f"/elsewhere {2 << 20}\n/elsewhere {4 << 20}\n"
                                                   f"/run/hugepin {8 << 20}\n", ""))
        finally:
            del os.environ["HUGEPIN_HOST_CAP"], os.environ["HUGEPIN_MOUNT"]

    def test_a_context_keeps_its_own_copy(self):
        options = bare(host_cap="2M")
        with hugepin.Context(options) as ctx, ctx.pool("host") as pool:
            options["host_cap"] = "4M"
            options.close()
            self.assertEqual(pool.stats().cap_bytes, 2 << 20)
        with self.assertRaises(ValueError):
            options["host_cap"] = "1M"


class ErrorTest(PoolCase):
    def test_errors_carry_numbers_and_are_pythons_own(self):
        with hugepin.Context(bare(host_cap="4M")) as ctx, ctx.pool("host") as pool:
            with self.assertRaises(MemoryError) as caught:
                pool.empty(5 << 20, "u1")
            error = caught.exception
            self.assertIsInstance(error, OSError)
            self.assertEqual(error.errno, errno.ENOMEM)
            for number in (5 << 20, 4 << 20):
                self.assertIn(str(number), error.strerror)
            self.assertEqual(pool.stats().failed_allocs, 1)
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), copy.args), (hugepin.OutOfMemory, error.args))

    def test_each_class_is_what_it_says(self):
        for ours, pythons in ((hugepin.OutOfMemory, MemoryError), (hugepin.InUse, BufferError),
                              (hugepin.Invalid, ValueError), (hugepin.NotPermitted, PermissionError),
                              (hugepin.Exists, FileExistsError), (hugepin.NotFound, FileNotFoundError)):
            self.assertTrue(issubclass(ours, pythons) and issubclass(ours, hugepin.Error))

    def test_a_variable_without_the_module_says_so(self):
        with hugepin.Context(bare(variable_ladder="kmod:2M,base", mount="/nonexistent")) as ctx:
            with self.assertRaises(hugepin.Error) as caught:
                ctx.variable("emb0", 10)
            self.assertEqual(caught.exception.errno, errno.ENODEV)
            self.assertIn("/nonexistent", caught.exception.strerror)
            with self.assertRaises(hugepin.Invalid):
                ctx.pool("host").variable("emb0", 10)
            with self.assertRaises(hugepin.Error):
                ctx.unlink("emb0")

    def test_kinds_of_pools(self):
        with self.assertRaises(ValueError):
            self.ctx.pool("device")
        self.assertEqual(repr(self.pool), "<hugepin.Pool host>")

    def test_another_library_is_refused_once_one_is_loaded(self):
        self.assertEqual(hugepin.load(), hugepin.load(hugepin.load()))
        with self.assertRaises(RuntimeError):
            hugepin.load("/elsewhere/libhugepin.so.0")
        self.assertRegex(hugepin.version(), r"^0\.1\.\d+$")


class LogTest(PoolCase):
    def setUp(self):
        super().setUp()
        self.logger = logging.getLogger("hugepin.test")
        self.logger.propagate = False
        self.logger.setLevel(logging.DEBUG)
        self.records = []
        self.handler = logging.Handler()
        self.handler.emit = self.records.append
        self.logger.addHandler(self.handler)

    def tearDown(self):
        hugepin.log_to(None)
        self.logger.removeHandler(self.handler)
        super().tearDown()

    def test_a_fallback_is_a_warning(self):
        hugepin.log_to(self.logger)
        with hugepin.Context(bare(host_ladder="kmod:2M,base", mount="/nonexistent")) as ctx, ctx.pool("host") as pool:
            pool.zeros(10)
        self.assertEqual([record.levelno for record in self.records], [logging.WARNING])
        self.assertIn("fell back", self.records[0].getMessage())

    def test_levels(self):
        hugepin.log_to(self.logger, logging.ERROR)
        self.pool.zeros(10)
        self.pool.trim()
        self.assertEqual(self.records, [])
        hugepin.log_to(self.logger, logging.INFO)
        self.pool.zeros(10)
        self.assertEqual({record.levelno for record in self.records}, {logging.INFO})
        hugepin.log_to(None)
        count = len(self.records)
        self.pool.trim()
        self.assertEqual(len(self.records), count)

    def test_a_handler_may_collect_and_call_the_library(self):
        """The library logs with locks held; the handler must not run there."""
        def emit(record):
            garbage = [self.pool.zeros(100)]
            garbage.append(garbage)
            del garbage
            gc.collect()
            self.records.append((record, self.pool.stats()))

        self.handler.emit = emit
        hugepin.log_to(self.logger, logging.DEBUG)

        def work():
            for _ in range(20):
                self.pool.zeros(3 << 20, "u1")
                self.pool.trim()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        self.assertGreater(len(self.records), 20)


if __name__ == "__main__":
    unittest.main()
