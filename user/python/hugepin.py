# SPDX-License-Identifier: MIT
"""Huge-page and pinned memory as NumPy arrays and torch tensors: libhugepin through ctypes, in this one file.

    import hugepin

    with hugepin.Context({"pinned_cap": "8G"}) as ctx, ctx.pool("pinned") as pool:
        batch = pool.empty((256, 3, 224, 224), "float32")       # a numpy.ndarray
        weights = pool.torch_zeros((1 << 20, 64))               # a torch.Tensor
        table, found = ctx.variable("emb0", (1 << 20, 64), "float32")   # survives this process; needs the module

Memory lives by reference. An array keeps its block, its pool and its context alive, as does every slice, view,
memoryview or tensor made from it; the block goes back when the last of them is gone. Pool.close() refuses while arrays
are alive; leaving a "with" or close(defer=True) ends a pool for new arrays, and the last one gives the memory back.

Pinned memory may still be read or written by a device when its last reference goes. Where it is registered with a
runtime, such blocks wait in the pool until the devices' work has passed: see Pool.streams. At interpreter exit nothing
is given back; the kernel does that when the process is gone.

Threads: everything here may be used by several. Fork: a child may use the arrays that it inherits, and letting go of
them does nothing; calls on its parent's objects raise NotPermitted. Spawn: pass a Variable, or share(array).
"""
from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import errno
import logging
import math
import mmap
import multiprocessing.reduction
import operator
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy

if TYPE_CHECKING:
    import torch
    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[Any]
    Order = Literal["C", "F"]
    Shape = Union[int, Sequence[int]]
    _Piece = tuple[Any, int, int]               # a descriptor or a path, offset, bytes

__all__ = ["Context", "Error", "Exists", "InUse", "Invalid", "NotFound", "NotPermitted", "OptionInfo", "Options",
           "OutOfMemory", "Pool", "PoolStats", "Segment", "Shared", "Variable", "load", "log_to", "share", "version"]

_SONAME = "libhugepin.so.0"
_ALLOC_ZERO = 1
_BLOCK_ALIGNMENT = 64
_KINDS = ("host", "pinned", "variable")
_PROVIDERS = {1: "kmod", 2: "hugetlb", 4: "base", 8: "device", 16: "thp", 32: "runtime"}
_PAGES_2M, _PAGES_1G = 2 << 20, 1 << 30

# ---- errors: errno, and the library's text ----


class Error(OSError):
    """A call failed and changed nothing: e.errno says why, e.strerror names the step, with numbers."""


class OutOfMemory(Error, MemoryError):
    """ENOMEM, EDQUOT: the ladder is exhausted, or a cap, share or limit is reached."""


class InUse(Error, BufferError):
    """EBUSY: something is still in use, such as a pool's arrays."""


class Invalid(Error, ValueError):
    """EINVAL, ERANGE: an argument or option's value."""


class NotPermitted(Error, PermissionError):
    """EPERM, EACCES: also of a forked child on its parent's objects."""


class Exists(Error, FileExistsError):
    """EEXIST: a variable of that name has another size."""


class NotFound(Error, FileNotFoundError):
    """ENOENT: no such option, name or segment."""


_ERRORS: dict[int, type[Error]] = {
    errno.ENOMEM: OutOfMemory, errno.EDQUOT: OutOfMemory, errno.EBUSY: InUse, errno.EINVAL: Invalid,
    errno.ERANGE: Invalid, errno.EPERM: NotPermitted, errno.EACCES: NotPermitted, errno.EEXIST: Exists,
    errno.ENOENT: NotFound}


def _error(number: int, text: str) -> Error:
    return _ERRORS.get(number, Error)(number, text or os.strerror(number))


# ---- the library ----

_P, _SIZE, _U64, _INT, _STR = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p
_LOG_FUNCTION = ctypes.CFUNCTYPE(None, _INT, _STR, _P)
_NO_LOG = _LOG_FUNCTION(0)

# name, without "hugepin_": result, arguments
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "version": (_STR,), "error": (_STR,), "log_set": (None, _LOG_FUNCTION, _P, _INT),
    "options_create": (_INT, _P), "options_destroy": (None, _P), "options_set": (_INT, _P, _STR, _STR),
    "options_load_file": (_INT, _P, _STR), "options_load_environment": (_INT, _P),
    "options_get": (_INT, _P, _STR, _P), "options_at": (_INT, _P, _SIZE, _P),
    "context_create": (_INT, _P, _P), "context_destroy": (_INT, _P), "region_unlink": (_INT, _P, _STR),
    "pool_create": (_INT, _P, _INT, _P), "pool_destroy": (_INT, _P), "free": (_INT, _P, _P),
    "free_after": (_INT, _P, _P, _P, _SIZE), "pool_drain": (_INT, _P),
    "pool_trim": (ctypes.c_int64, _P, _U64), "pool_stats_get": (_INT, _P, _P),
    "pool_segment": (_INT, _P, _SIZE, _P), "block_segment": (_INT, _P, _P, _P),
    "variable_open": (_INT, _P, _STR, _U64, _P, _P), "variable_address": (_P, _P), "variable_close": (None, _P),
}


class _Library:
    """The loaded library's calls, by their names without "hugepin_"."""

    def __init__(self, path: str):
        self.path = path
        whole = ctypes.CDLL(path)
        for name, (result, *arguments) in _PROTOTYPES.items():
            function = whole["hugepin_" + name]
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        # The one call that answers through errno. The others leave ctypes' copy alone: they run in the collector too.
        self.alloc = ctypes.CDLL(path, use_errno=True).hugepin_alloc_aligned
        self.alloc.restype, self.alloc.argtypes = _P, (_P, _SIZE, _SIZE, ctypes.c_uint)

    def __getattr__(self, name: str) -> Any:        # for type checkers: set by __init__
        raise AttributeError(name)


_library: _Library | None = None
_load_lock = threading.Lock()


def load(path: str | os.PathLike[str] | None = None) -> str:
    """Load libhugepin and return where from; the first call that needs it does this by itself.

    path: a file. Default: of the build tree this file stands in, else what the dynamic linker finds.
    Raises RuntimeError if another one is loaded already, OSError if there is none.
    """
    global _library
    with _load_lock:
        if _library is not None:
            if path is not None and os.fspath(path) != _library.path:
                raise RuntimeError(f"{_library.path} is loaded already, so {os.fspath(path)} cannot be")
            return _library.path
        here = os.path.dirname(os.path.abspath(__file__))
        built = os.path.join(here, "../../build/lib", _SONAME)
        if path is None:
            in_tree = os.path.basename(here) == "python" and os.path.exists(built)
            path = os.path.normpath(built) if in_tree else _SONAME
        library = _Library(os.fspath(path))
        if not library.version().startswith(b"0.1."):
            raise RuntimeError(f"{library.path} is version {library.version().decode()}; this file is for 0.1")
        _library = library
        return library.path


def _lib() -> _Library:
    if _library is None:
        load()
    assert _library is not None
    return _library


def version() -> str:
    """The library's version, such as "0.1.0"."""
    text: bytes = _lib().version()
    return text.decode()


# ---- what the collector may do, and when ----
#
# A collection can begin in any thread at almost any bytecode. So what is collected is queued, and given back at once
# only if its thread is outside of this module: inside it may hold a lock, be about to read the text of an error, or be
# in the log callback, where the library must not be called. There it is given back on the way out.

_collected: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
_lines: collections.deque[tuple[int, str]] = collections.deque()


class _Inside(threading.local):
    """This thread is inside the module: a context manager that nests."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth:
            if _collected:
                _give_back()
            if _lines:
                _deliver_lines()


_inside = _Inside()


def _give_back() -> None:
    while _collected and not _inside.depth:
        _inside.depth += 1
        try:
            while _collected:
                try:
                    give_back, what = _collected.popleft()
                except IndexError:          # another thread was quicker
                    break
                give_back(what)
        finally:
            _inside.depth -= 1


def _on_collect(give_back: Callable[[Any], None], what: Any) -> None:
    _collected.append((give_back, what))
    if not _inside.depth:
        _give_back()


def _when_collected(thing: object, give_back: Callable[[Any], None], what: Any) -> None:
    """Not at exit: others may use the memory until the process is gone."""
    weakref.finalize(thing, _on_collect, give_back, what).atexit = False


def _forget_parent() -> None:
    _collected.clear()
    _lines.clear()


os.register_at_fork(after_in_child=_forget_parent)

# ---- the log: lines are queued by the library's callback and logged outside of it ----

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_logger: logging.Logger | None = None


def _on_line(level: int, line: bytes, _: object) -> None:
    _inside.depth += 1
    _lines.append((_LEVELS[level], line.decode(errors="replace")))
    _inside.depth -= 1


_log_callback = _LOG_FUNCTION(_on_line)


def _deliver_lines() -> None:
    while _lines:
        try:
            level, line = _lines.popleft()
        except IndexError:
            return
        if _logger is not None:
            _logger.log(level, "%s", line)


def log_to(logger: logging.Logger | None, level: int = logging.WARNING) -> None:
    """Send the library's log to a logger, lines of that level and above; None: no log, which is the default.

    Lines are logged when the call that made them is over; those made in the collector, by the next call.
    """
    global _logger
    with _inside:
        wanted = [ours for ours, theirs in enumerate(_LEVELS) if theirs >= level]
        if logger is None or not wanted:
            _lib().log_set(_NO_LOG, None, 0)
            _logger = None
        else:
            _logger = logger
            _lib().log_set(_log_callback, None, wanted[-1])


@atexit.register
def _stop_log() -> None:
    if _library is not None:
        _library.log_set(_NO_LOG, None, 0)
        _deliver_lines()


def _failure(number: int) -> Error:
    """Of the call that this thread has just made."""
    return _error(number, _lib().error().decode(errors="replace"))


def _call(function: Callable[..., int], *arguments: Any) -> int:
    """A call that returns a number, or -errno: then its error is raised."""
    with _inside:
        result = function(*arguments)
        if result < 0:
            raise _failure(-result)
    return result


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# ---- objects of the library, and who uses them ----


class _Handle:
    """An object of the library, kept until it is closed and nobody uses it: neither a call, nor what was made from it.

    users: who does. Keys are a block's address, a handle made from this one, or a call's own token; values are bytes.
    """

    def __init__(self, what: str, destroy: Callable[[int], int | None], parent: _Handle | None = None):
        self.what, self.destroy, self.parent = what, destroy, parent
        self.addresses: list[int] = []      # one until it is ended; who pops it ends it
        self.pid = os.getpid()
        # A signal handler may come in again at any bytecode: what must happen once is one operation of a container.
        self.lock = threading.RLock()
        self.users: dict[Any, int] = {}
        self.closing = False

    @property
    def address(self) -> int | None:
        return next(iter(self.addresses), None)

    def make(self, owner: object, create: Callable[..., int], *arguments: Any) -> None:
        out = _P()
        _call(create, *arguments, ctypes.byref(out))
        assert out.value
        self.addresses.append(out.value)
        if self.parent:
            self.parent.users[self] = 0
        _when_collected(owner, self.abandon, None)

    def is_parents(self) -> bool:
        """In a child of the process that made it: locks may be held for ever there, and the books are the parent's."""
        return os.getpid() != self.pid

    @contextlib.contextmanager
    def use(self) -> Iterator[int]:
        if self.is_parents():
            raise NotPermitted(errno.EPERM, f"process {os.getpid()} is a child of process {self.pid}, which made this "
                               f"{self.what}: make one of its own")
        token = object()
        with _inside:
            try:
                with self.lock:
                    address = self.address
                    if self.closing or address is None:
                        raise ValueError(f"the {self.what} is closed")
                    self.users[token] = 0
                yield address
            finally:
                self.leave(token)

    def leave(self, user: Any) -> None:
        """Without the lock in the common case: close() sets closing before it looks at users, this the other way."""
        self.users.pop(user, None)
        if self.closing:
            self.left()

    def left(self) -> None:
        if self.is_parents():
            return
        with _inside, self.lock, self.quietly():
            if self.closing:
                self.end()

    def in_use(self) -> str:
        return _counted(len(self.users), "user")

    def end(self) -> None:
        """Needs the lock."""
        if self.users or not self.addresses:
            return
        try:
            address = self.addresses.pop()
        except IndexError:                  # a signal handler was quicker
            return
        result = self.destroy(address)
        if result:
            self.addresses.append(address)
            raise _failure(-result)
        if self.parent:
            self.parent.leave(self)

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        """Where nobody can be told: a failure goes to the log, and what failed stays."""
        try:
            yield
        except Error as error:
            _lines.append((logging.ERROR, f"{self.what}: closing it: {error.strerror}"))

    def close(self, defer: bool) -> None:
        if self.is_parents():
            return
        with _inside, self.lock:
            if not self.addresses or (self.closing and defer):
                return
            if self.users and not defer:
                raise InUse(errno.EBUSY, f"the {self.what} has {self.in_use()}")
            before, self.closing = self.closing, True
            try:
                self.end()
            except Error:
                self.closing = before
                raise

    def abandon(self, _: None) -> None:
        with self.quietly():
            self.close(defer=True)


class _Closing:
    """What users of the library's objects have in common: close(), and "with"."""

    _handle: _Handle

    def close(self, *, defer: bool = False) -> None:
        """Give everything back. Raises InUse while something made from it is alive, saying how much.

        defer: never refuse; nothing new can be made from now on, and the last one that is alive gives everything back.
        In a forked child this does nothing.
        """
        self._handle.close(defer)

    @property
    def closed(self) -> bool:
        """Closed, perhaps with what is alive still to give back."""
        return self._handle.closing

    def __exit__(self, *_: object) -> None:
        self.close(defer=True)


# ---- options ----


@dataclass(frozen=True)
class OptionInfo:
    """One option as it stands in a set; Documentation/options.md describes them all."""

    name: str
    dialect: str
    type: str
    unit: str
    default_value: str
    min: str
    max: str
    choices: str
    value: str
    source: str
    doc: str
    environment: str


class _OptionInfo(ctypes.Structure):
    _fields_ = [("size", _SIZE)] + [(field.name, _STR) for field in fields(OptionInfo)]


class Options(_Closing):
    """A set of options, each at its default: options["pinned_cap"] = "8G".

    Values may be str, bool, int, float, or a sequence of them for a list.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, *, environment: bool = False):
        """environment: read it too, as the library does for a context without options."""
        self._handle = _Handle("option set", _lib().options_destroy)
        self._handle.make(self, _lib().options_create)
        if environment:
            self.load_environment()
        for key, value in (values or {}).items():
            self[key] = value

    def __enter__(self) -> Options:
        return self

    @staticmethod
    def _text(value: Any) -> str:
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, (list, tuple)):
            return ",".join(map(Options._text, value))
        return str(value)

    def __setitem__(self, key: str, value: Any) -> None:
        """Raises NotFound (no such option) or Invalid (with the range); the set is then unchanged."""
        with self._handle.use() as options:
            _call(_lib().options_set, options, _c_text(key), _c_text(self._text(value)))

    def __getitem__(self, key: str) -> str:
        return self.info(key).value

    def info(self, key: str) -> OptionInfo:
        """All about one option. Raises NotFound."""
        with self._handle.use() as options:
            return self._read(_lib().options_get, options, _c_text(key))

    @staticmethod
    def _read(function: Callable[..., int], *arguments: Any) -> OptionInfo:
        info = _OptionInfo(size=ctypes.sizeof(_OptionInfo))
        _call(function, *arguments, ctypes.byref(info))
        return OptionInfo(*(os.fsdecode(getattr(info, field.name)) for field in fields(OptionInfo)))

    def __iter__(self) -> Iterator[OptionInfo]:
        infos: list[OptionInfo] = []
        with self._handle.use() as options, contextlib.suppress(NotFound):
            while True:
                infos.append(self._read(_lib().options_at, options, len(infos)))
        return iter(infos)

    def load_file(self, path: str | os.PathLike[str]) -> None:
        """Read "key = value" lines, all or nothing."""
        with self._handle.use() as options:
            _call(_lib().options_load_file, options, _c_text(os.fspath(path)))

    def load_environment(self) -> None:
        """Read HUGEPIN_* and FLAGS_*, all or nothing."""
        with self._handle.use() as options:
            _call(_lib().options_load_environment, options)


def _c_text(text: str) -> bytes:
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{text!r} has a NUL in it")
    return encoded


def _c_number(number: Any, what: str) -> int:
    """ctypes would take it modulo 2^64."""
    value = operator.index(number)
    if not 0 <= value < 1 << 64:
        raise Invalid(errno.EINVAL, f"{what} is {value}, which is not in 0 to 2^64 - 1")
    return value


# ---- numbers ----


@dataclass(frozen=True)
class PoolStats:
    """One snapshot: active + cached + deferred + free = mapped; dataclasses.asdict() makes a dict of it.

    What was collected and waits for a device is deferred.
    """

    active_bytes: int
    cached_bytes: int
    deferred_bytes: int
    free_bytes: int
    mapped_bytes: int
    registered_bytes: int
    requested_bytes: int
    wasted_bytes: int
    peak_active_bytes: int
    peak_requested_bytes: int
    peak_mapped_bytes: int
    cap_bytes: int
    active_blocks: int
    allocs: int
    frees: int
    failed_allocs: int
    segments: int
    fallbacks: int


class _PoolStats(ctypes.Structure):
    _fields_ = [("size", _SIZE)] + [(field.name, _U64) for field in fields(PoolStats)]


@dataclass(frozen=True)
class Segment:
    """One mapping of a pool, as it really is. fd is the pool's (-1: none), node -1: several or not told."""

    addr: int
    bytes: int
    provider: str
    page_bytes: int
    bytes_1g: int
    bytes_2m: int
    node: int
    fd: int
    offset: int
    registered: str


class _Segment(ctypes.Structure):
    _fields_ = [("size", _SIZE), ("addr", _P), ("bytes", _U64), ("provider", _INT), ("page_bytes", _U64),
                ("bytes_1g", _U64), ("bytes_2m", _U64), ("node", _INT), ("fd", _INT), ("offset", _U64),
                ("registered", _STR)]


def _segment(function: Callable[..., int], *arguments: Any) -> Segment:
    info = _Segment(size=ctypes.sizeof(_Segment))
    _call(function, *arguments, ctypes.byref(info))
    values = {field.name: getattr(info, field.name) for field in fields(Segment)}
    values.update(provider=_PROVIDERS.get(info.provider, str(info.provider)), registered=info.registered.decode())
    return Segment(**values)


# ---- memory ----


class _Memory:
    """What the root array of a block is made from, at the end of the chain of bases of all that shares the block.

    It is the root's death that gives the block back. Of a cycle the collector runs the finalizers of weak references
    first, while __del__ of others in it may still look at the memory. But a plain ndarray is none of its business (a
    subclass would be): the root dies when really nothing refers to it any more.
    """

    __slots__ = ("__array_interface__", "handle", "address", "path", "bytes")

    def __init__(self, handle: _PoolHandle | None, address: int, nbytes: int, path: str | None = None):
        self.handle, self.address, self.bytes, self.path = handle, address, nbytes, path
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (address, False)}

    def root(self, give_back: Callable[[Any], None], what: Any) -> Array:
        try:
            root = numpy.asarray(self)
            _when_collected(root, give_back, what)
        except BaseException:
            _on_collect(give_back, what)
            raise
        return root


class _PoolHandle(_Handle):
    """A pool's blocks, from being taken to being given back."""

    def __init__(self, kind: str, parent: _Handle):
        super().__init__(f"{kind} pool", _lib().pool_destroy, parent)
        self.registered: bool | None = None     # with a runtime, so that a device may use it; None: not known yet
        self.streams: ctypes.Array[ctypes.c_void_p] | None = None

    def in_use(self) -> str:
        blocks = [nbytes for user, nbytes in list(self.users.items()) if isinstance(user, int)]
        calls = len(self.users) - len(blocks)
        return (f"{_counted(len(blocks), 'array')} of together {sum(blocks)} bytes alive"
                + (f", and {_counted(calls, 'call')} under way" if calls else ""))

    def take(self, nbytes: int, flags: int, alignment: int) -> Array:
        try:
            return self.allocate(nbytes, flags, alignment)
        except OutOfMemory:
            if not self.registered or not self.drain():
                raise
        return self.allocate(nbytes, flags, alignment)

    def allocate(self, nbytes: int, flags: int, alignment: int) -> Array:
        with self.use() as pool:
            address = _lib().alloc(pool, alignment, nbytes, flags)
            if not address:
                raise _failure(ctypes.get_errno())
            self.users[address] = nbytes
            root = _Memory(self, address, nbytes).root(self.take_back, address)
            if self.registered is None and nbytes:
                self.registered = _segment(_lib().block_segment, pool, address).registered not in ("", "none")
        return root

    def take_back(self, address: int) -> None:
        """A block that is not given back stays in use: close() tells of it."""
        if self.is_parents():
            return
        if self.give_back(address):
            _lines.append((logging.ERROR, _lib().error().decode(errors="replace")))
        else:
            self.leave(address)

    def give_back(self, address: int) -> int:
        """A device may still be at work on it: then it is free after that. Not waited for here."""
        result: int
        if not self.registered:
            result = _lib().free(self.address, address)
            return result
        streams = self.streams
        result = _lib().free_after(self.address, address, streams, len(streams) if streams else 0)
        if result and streams:              # one is gone: after everything, then
            result = _lib().free_after(self.address, address, None, 0)
        return result

    def drain(self) -> bool:
        """Wait until nothing waits for a device. False: not now."""
        with self.use() as pool:
            try:
                _call(_lib().pool_drain, pool)
            except InUse:                   # a stream is being captured
                return False
        return True

    def open_variable(self, name: str, nbytes: int, path: str) -> tuple[Array, bool]:
        found, variable = _INT(), _P()
        with self.use() as pool:
            _call(_lib().variable_open, pool, _c_text(name), nbytes, ctypes.byref(found), ctypes.byref(variable))
            address = _lib().variable_address(variable)
            self.users[address] = nbytes
            root = _Memory(self, address, nbytes, path).root(self.close_variable, (variable.value, address))
        return root, bool(found)

    def close_variable(self, variable: tuple[int, int]) -> None:
        if self.is_parents():
            return
        _lib().variable_close(variable[0])
        self.leave(variable[1])


def _shape(shape: Shape) -> tuple[int, ...]:
    try:
        sizes: tuple[int, ...] = (operator.index(shape),)       # type: ignore[arg-type]
    except TypeError:
        sizes = tuple(operator.index(size) for size in shape)   # type: ignore[union-attr]
    if any(size < 0 for size in sizes):
        raise ValueError(f"negative dimensions in the shape {sizes}")
    return sizes


def _layout(shape: Shape, dtype: DTypeLike) -> tuple[tuple[int, ...], numpy.dtype[Any], int]:
    """The shape, the dtype and the bytes of an array."""
    sizes, kind = _shape(shape), numpy.dtype(dtype)
    if kind.subdtype:
        kind, inner = kind.subdtype
        sizes += inner
    if kind.hasobject:
        raise TypeError(f"{kind} holds references to Python objects, which no such memory can")
    if not kind.itemsize:
        raise ValueError(f"{kind} has no size")
    return sizes, kind, _fits(math.prod(sizes) * kind.itemsize)


def _fits(nbytes: int) -> int:
    if nbytes > sys.maxsize:
        raise OutOfMemory(errno.ENOMEM, f"{nbytes} bytes are more than an address space has")
    return nbytes


class Pool(_Closing):
    """Memory of one kind, made by Context.pool(): "host", "pinned" (registered with the runtime) or "variable"."""

    def __init__(self, ctx: Context, kind: str):
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is no kind of pool: {', '.join(_KINDS)}")
        self.kind = kind
        self._mount = ctx.mount
        self._handle: _PoolHandle = _PoolHandle(kind, ctx._handle)
        with ctx._handle.use() as address:
            self._handle.make(self, _lib().pool_create, address, _KINDS.index(kind))

    def __enter__(self) -> Pool:
        return self

    def __repr__(self) -> str:
        return f"<hugepin.Pool {self.kind}{', closed' if self.closed else ''}>"

    def empty(self, shape: Shape, dtype: DTypeLike = "float64", order: Order = "C", *,
              alignment: int = _BLOCK_ALIGNMENT) -> Array:
        """An array of unspecified contents. alignment: a power of two up to 1 GiB.

        Raises OutOfMemory, saying what each rung of the ladder lacked; Error with EIO: the runtime refused to register.
        """
        return self._array(shape, dtype, order, 0, alignment)

    def zeros(self, shape: Shape, dtype: DTypeLike = "float64", order: Order = "C", *,
              alignment: int = _BLOCK_ALIGNMENT) -> Array:
        """An array of zeros; free of cost on memory that is known to be zero."""
        return self._array(shape, dtype, order, _ALLOC_ZERO, alignment)

    def _array(self, shape: Shape, dtype: DTypeLike, order: Order, flags: int, alignment: int) -> Array:
        sizes, kind, nbytes = _layout(shape, dtype)
        if order not in ("C", "F"):
            raise ValueError(f"order is {order!r}, not 'C' or 'F'")
        root = self._handle.take(nbytes, flags, _c_number(alignment, "alignment"))
        return numpy.ndarray(sizes, kind, root, order=order)

    def torch_empty(self, shape: Shape, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A CPU tensor of unspecified contents, of any dtype torch has; the default one if None."""
        return self._tensor(shape, dtype, 0)

    def torch_zeros(self, shape: Shape, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A CPU tensor of zeros."""
        return self._tensor(shape, dtype, _ALLOC_ZERO)

    def _tensor(self, shape: Shape, dtype: torch.dtype | None, flags: int) -> torch.Tensor:
        import torch            # pylint: disable=import-outside-toplevel; a program without torch needs none
        sizes, like = _shape(shape), torch.empty(0, dtype=dtype)
        root = self._handle.take(_fits(math.prod(sizes) * like.element_size()), flags, _BLOCK_ALIGNMENT)
        return torch.from_numpy(root).view(like.dtype).view(sizes)

    def variable(self, name: str, shape: Shape, dtype: DTypeLike = "float64") -> Variable:
        """As Context.variable(), of this pool, which must be of kind "variable"."""
        sizes, kind, nbytes = _layout(shape, dtype)
        path = name if "/" in name else os.path.join(self._mount, name)
        root, found = self._handle.open_variable(name, nbytes, os.path.abspath(path))
        return Variable(name, numpy.ndarray(sizes, kind, root), found)

    @property
    def streams(self) -> tuple[int, ...] | None:
        """Handles of the streams that use arrays of memory that is registered with a runtime; None: not known.

        Such a block is used again only after the work that these were given until it was collected, or, with None, that
        every device was given. The streams must exist for as long as they stand here.
        """
        streams = self._handle.streams
        return None if streams is None else tuple(handle or 0 for handle in streams)

    @streams.setter
    def streams(self, handles: Iterable[int] | None) -> None:
        listed = None if handles is None else [_c_number(handle, "a stream") for handle in handles]
        self._handle.streams = (ctypes.c_void_p * len(listed))(*listed) if listed else None

    def synchronize(self) -> bool:
        """Wait until what was collected may be used again. False: not now, for a stream is being captured."""
        return self._handle.drain()

    def trim(self, keep_bytes: int = 0) -> int:
        """Give wholly free segments back until no more than this is mapped; returns the bytes given back."""
        keep = _c_number(keep_bytes, "keep_bytes")
        self.synchronize()
        with self._handle.use() as pool:
            return _call(_lib().pool_trim, pool, keep)

    def stats(self) -> PoolStats:
        """The pool in numbers, one snapshot."""
        raw = _PoolStats(size=ctypes.sizeof(_PoolStats))
        with self._handle.use() as pool:
            _call(_lib().pool_stats_get, pool, ctypes.byref(raw))
        return PoolStats(**{name: getattr(raw, name) for name, _ in _PoolStats._fields_[1:]})

    def segments(self) -> list[Segment]:
        """What is mapped, by address."""
        found: list[Segment] = []
        with self._handle.use() as pool, contextlib.suppress(NotFound):
            while True:
                found.append(_segment(_lib().pool_segment, pool, len(found)))
        return found

    def segment_of(self, array: Array) -> Segment:
        """The segment that holds an array's first byte. Raises NotFound."""
        with self._handle.use() as pool:
            return _segment(_lib().block_segment, pool, array.__array_interface__["data"][0])


class Context(_Closing):
    """Options in force on this machine; pools are made from it."""

    def __init__(self, options: Options | Mapping[str, Any] | None = None):
        """options: a mapping is set over what the environment says, an Options is taken as it is, and copied."""
        if not isinstance(options, Options):
            options = Options(options, environment=True)
        self.mount = options["mount"]
        self._variables: Pool | None = None
        self._handle = _Handle("context", _lib().context_destroy)
        with options._handle.use() as address:
            self._handle.make(self, _lib().context_create, address)

    def __enter__(self) -> Context:
        return self

    def pool(self, kind: str) -> Pool:
        """A pool of kind "host", "pinned" or "variable", as the options say."""
        return Pool(self, kind)

    def variable(self, name: str, shape: Shape, dtype: DTypeLike = "float64") -> Variable:
        """Find the named variable that a former process left, contents and all, or make it, zeroed.

            table, found = ctx.variable("emb0", (rows, 64), "float32")

        It stays when this process is gone, however it ends, until unlink(). Needs the module. Raises Exists if it has
        another size. name: in the hugepinfs mount of option "mount", or a path in any mount of hugepinfs.
        """
        if self._variables is None:
            self._variables = Pool(self, "variable")
        return self._variables.variable(name, shape, dtype)

    def unlink(self, name: str) -> None:
        """Remove a variable's name; those who have it keep it."""
        with self._handle.use() as address:
            _call(_lib().region_unlink, address, _c_text(name))

    def close(self, *, defer: bool = False) -> None:
        if self._variables is not None:
            self._variables.close(defer=defer)
        for pool in [user for user in list(self._handle.users) if isinstance(user, _PoolHandle)]:
            pool.left()                     # of those closed while a stream was being captured
        super().close(defer=defer)


# ---- other processes ----


@dataclass(eq=False)
class Variable:
    """A named variable; it unpacks into its array and whether that was found. Pickled, it is its name."""

    name: str
    array: Array
    found: bool

    def __iter__(self) -> Iterator[Any]:
        return iter((self.array, self.found))

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach_variable, (self.name, Shared(self.array))


def _attach_variable(name: str, shared: Shared) -> Variable:
    return Variable(name, shared.array, True)


def _memory_of(array: Array) -> _Memory:
    below: Any = array
    while not isinstance(below, _Memory):
        below = below.obj if isinstance(below, memoryview) else getattr(below, "base", None)
        if below is None:
            raise ValueError("the array is not of a pool of this process")
    return below


@dataclass(eq=False)
class Shared:
    """An array on its way to another process: pickled by multiprocessing, its .array there is the same memory.

    It goes by name if it is of a variable, else by descriptor, which base pages do not have. The other process needs no
    library for it, and keeps the pages for as long as it has the array. The sender's pool knows nothing of that: the
    sender must keep its array until the other is done, lest the block be used for something else.
    """

    array: Array

    def __reduce__(self) -> tuple[Any, ...]:
        pieces, *layout = _where(self.array)
        return _attach, ([(_sendable(source), offset, nbytes) for source, offset, nbytes in pieces], *layout)


def _sendable(source: Any) -> Any:
    return multiprocessing.reduction.DupFd(source) if isinstance(source, int) else source


def _where(array: Array) -> tuple[list[_Piece], int, int, tuple[int, ...], tuple[int, ...], numpy.dtype[Any]]:
    """The memory that an array is in, that memory's address, and the array's place and layout there."""
    memory = _memory_of(array)
    first = array.__array_interface__["data"][0]
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides)] if array.size else []
    low, high = first + sum(min(0, step) for step in steps), first + sum(max(0, step) for step in steps)
    if memory.path is not None:
        pieces: list[_Piece] = [(memory.path, 0, -(-memory.bytes // _PAGES_2M) * _PAGES_2M)]
        start = memory.address
    elif memory.handle is None:
        raise ValueError("this array came by descriptor: share it from the process that made it")
    else:
        pieces, start = _pieces(memory.handle, low, high + array.itemsize)
    return pieces, start, first - start, array.shape, array.strides, array.dtype


def _pieces(handle: _PoolHandle, low: int, high: int) -> tuple[list[_Piece], int]:
    """The whole pages around [low, high), of one segment or several, and their address."""
    pieces: list[_Piece] = []
    start, at = 0, low
    while at < high:
        with handle.use() as pool:
            segment = _segment(_lib().block_segment, pool, at)
        if segment.fd < 0:
            raise Error(errno.EOPNOTSUPP, f"memory of provider {segment.provider} has no descriptor to pass on; without"
                        f" it on the ladder (option {handle.what.split()[0]}_ladder) an array has one, or is refused")
        page = max(segment.page_bytes, _PAGES_2M)
        begin = (at - segment.addr) // page * page
        end = min(-(-(high - segment.addr) // page) * page, segment.bytes)
        pieces.append((segment.fd, segment.offset + begin, end - begin))
        start = start or segment.addr + begin
        at = segment.addr + end
    return pieces, start


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype, _libc.mmap.argtypes = _P, (_P, _SIZE, _INT, _INT, _INT, ctypes.c_long)
_libc.munmap.argtypes = (_P, _SIZE)
_MAP_FIXED, _MAP_NORESERVE, _MAP_FAILED = 0x10, 0x4000, ctypes.c_void_p(-1).value


def _map(at: int | None, nbytes: int, protection: int, flags: int, fd: int = -1, offset: int = 0) -> int:
    address: int = _libc.mmap(at, nbytes, protection, flags, fd, offset)
    if address == _MAP_FAILED:
        number = ctypes.get_errno()
        raise _error(number, f"mapping {nbytes} bytes of another process: {os.strerror(number)}")
    return address


def _unmap(mapping: tuple[int, int]) -> None:
    _libc.munmap(*mapping)


def _attach(pieces: list[_Piece], start: int, offset: int, shape: tuple[int, ...],
            strides: tuple[int, ...], dtype: numpy.dtype[Any]) -> Shared:
    """The pieces side by side, at an address that suits every page size as start did."""
    nbytes = sum(piece[2] for piece in pieces)
    path = pieces[0][0] if isinstance(pieces[0][0], str) else None
    room = nbytes + _PAGES_1G
    mapping = _map(None, room, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE), room
    at = address = mapping[0] + (start - mapping[0]) % _PAGES_1G
    root = _Memory(None, address, nbytes, path).root(_unmap, mapping)
    for source, file_offset, piece in pieces:
        fd = os.open(source, os.O_RDWR | os.O_CLOEXEC) if path else source.detach()
        try:
            if path and os.fstat(fd).st_size < piece:
                raise Error(errno.ESTALE, f"{path} has {os.fstat(fd).st_size} bytes now and no {piece}: it is another")
            _map(at, piece, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED, fd, file_offset)
        finally:
            os.close(fd)
        at += piece
    return Shared(numpy.ndarray(shape, dtype, root, offset, strides))


def share(array: Array) -> Shared:
    """Pass an array to a process that is spawned, or through a multiprocessing queue, without a copy.

    Raises Error with EOPNOTSUPP where the memory has no descriptor, ValueError if it is not of a pool.
    """
    _where(array)
    return Shared(array)
