# SPDX-License-Identifier: Apache-2.0
"""Fermata for CUDA servers in Python: the streams of several models in one process are bound to groups, and the urgent group
preempts the others.

    import fermata

    fermata.init("fixed-priority")            # before CUDA is used; without it, by the daemon, if there is one
    fermata.bind(urgent_stream, "urgent", "high")
    fermata.bind(batch_stream, "batch", "low")

Queues of other device APIs are bound by bind_queue():

    fermata.bind_queue("opencl", queue, "urgent", "high")

The functions are those of <fermata/cuda.h>, <fermata/bind.h> and <fermata/memory.h>, whose contracts hold. They are in the library that
`fermata run` gives a program, or LD_PRELOAD; in a process without it available() is False, and the others raise OSError with
errno ENOSYS. Whatever fails raises OSError with the errno that the header tells, and has no effect.

A stream is a number (a CUstream), or an object that has one: torch.cuda.Stream, cupy.cuda.Stream, a numba or cuda.core stream,
fermata.Stream.

Functions may be called from any thread, also from callbacks. Other threads of Python go on while one waits.
"""
from __future__ import annotations

import atexit
import contextlib
import contextvars
import ctypes
import dataclasses
import errno
import itertools
import os
from typing import Any, Callable, Iterator, Mapping, NoReturn, Optional, Sequence, Union

from . import _abi
from ._abi import FOREVER, PAD_AUTO, PAD_AUTO_AT, PAD_DEVICE, Hint, Place, Priority, Use

__all__ = ["APIS", "PAD_AUTO", "PAD_AUTO_AT", "PAD_DEVICE", "Elastic", "Group", "Hint", "Info", "MemoryStat", "Place", "Priority", "Room",
           "Stream", "Use", "Version", "available", "bind", "bind_queue", "bind_thread", "fit", "group", "hint", "init", "prune", "query",
           "reserve", "resume", "room", "scheduled", "stat", "stream", "suspend", "unbind", "unbind_queue", "unbind_thread", "want"]
__version__ = "0.1.0"

APIS = ("cuda", "hip", "opencl", "vulkan", "ze", "acl", "vpi", "cudla")  # whose queues bind_queue() takes, where the process has a shim of theirs

PriorityLike = Union[int, str, None]
HintLike = Union[Hint, str, int]
StreamCallback = Callable[[int, int], object]

_NO_SHIM = "no shim of that API is here: the process runs without Fermata (start it by `fermata run`), or has not used the API yet"
_REASONS = {
    ("fm_cuda_init", errno.EBUSY): "too late: call it before anything of CUDA is used",
    ("fm_cuda_init", errno.EINVAL): "there is no such policy, or spin is beyond 10 ms",
    ("fm_cuda_bind", errno.EBUSY): "the stream has unfinished commands, or a stream is being captured: synchronize it first",
    ("fm_cuda_bind", errno.EINVAL): "a default stream cannot be bound, and a group's name has 1 to 63 printable characters "
                                    "without spaces, quotes and slashes",
    ("fm_cuda_bind", errno.ENOSPC): "a process has at most 15 groups by name and 128 streams",
    ("fm_cuda_unbind", errno.EBUSY): "the stream has unfinished commands, or a stream is being captured: synchronize it first",
    ("fm_cuda_suspend", errno.ETIMEDOUT): "the stream is suspended, and has not come to rest in time",
    ("fm_cuda_suspend", errno.ECANCELED): "the stream was resumed or destroyed meanwhile",
    ("fm_cuda_room", errno.ENOENT): "the stream is not bound, and nothing was launched into it",
    ("fm_cuda_prune", errno.EINVAL): "there are more than 65536 versions",
    ("fm_cuda_query", errno.ENOENT): "the stream is not bound, and nothing was launched into it",
    ("fm_cuda_reserve", errno.EBUSY): "the device has a partition of another size, or a stream is being captured",
    ("fm_cuda_reserve", errno.EOPNOTSUPP): "the driver has no green contexts, or the current context is not the primary one",
    ("fm_cuda_reserve", errno.ENOSPC): "nothing would be left for the rest",
    ("fm_cuda_stream_create", errno.ENOENT): "there is no partition: reserve() makes one",
    ("fm_bind", errno.EBUSY): "the stream has unfinished commands (CUDA), or a stream is being captured: synchronize it first",
    ("fm_bind", errno.EINVAL): "this queue cannot be bound; a group's name has 1 to 63 printable characters without spaces, quotes "
                               "and slashes",
    ("fm_bind", errno.ENOSPC): "a process has at most 15 groups by name and 128 queues of each API",
    ("fm_bind", errno.ERANGE): "a hint does not take this value",
    ("fm_bind", errno.ENOSYS): _NO_SHIM,
    ("fm_unbind", errno.ENOSYS): _NO_SHIM,
    ("fm_unbind", errno.EBUSY): "the stream has unfinished commands (CUDA), or a stream is being captured: synchronize it first",
    ("fm_unbind", errno.ENOENT): "the queue is in the process's own group, or is not scheduled",
    ("fm_thread_bind", errno.EINVAL): "a group's name has 1 to 63 printable characters without spaces, quotes and slashes",
    ("fm_thread_bind", errno.ERANGE): "a hint does not take this value",
    ("fm_memory_want", errno.ENOENT): "none of the range is memory that Fermata moves",
    ("fm_memory_want", errno.EBUSY): "it is not on the device now, and was asked to come in: say it again later",
}
_GENERAL = {
    errno.ENOSYS: "this process runs without Fermata: start it by `fermata run`",
    errno.ENODEV: "Fermata is switched off, or there is no driver",
    errno.EOPNOTSUPP: "Fermata leaves this queue alone",
    errno.ENOENT: "the stream is not bound",
}


def _fail(name: str, code: int) -> NoReturn:
    raise OSError(code, f"{name}: {_REASONS.get((name, code)) or _GENERAL.get(code) or os.strerror(code)}")


def _must(name: str, *arguments: Any) -> None:
    rc = _abi.call(name, *arguments)
    if rc:
        _fail(name, -rc)


def _handle(of: Any) -> int:
    """The CUstream of what a stream is given as."""
    if isinstance(of, int):
        return of
    protocol = getattr(of, "__cuda_stream__", None)
    if callable(protocol):
        return int(protocol()[1])
    for name in ("cuda_stream", "ptr", "handle", "value"):
        value = getattr(of, name, None)
        value = getattr(value, "value", value)  # numba: a c_void_p
        if isinstance(value, int):
            return value
    raise TypeError(f"{type(of).__name__} is neither a number nor a stream of a library that is known")


def _priority(of: PriorityLike) -> int:
    if of is None:
        return _abi.PRIORITY_KEEP
    if isinstance(of, str):
        names = {p.name.lower(): int(p) for p in Priority if p.name not in ("MIN", "MAX")}
        if of.lower() not in names:
            raise OSError(errno.EINVAL, f"'{of}' is none of {', '.join(names)}, and no number")
        return names[of.lower()]
    if not Priority.MIN <= of <= Priority.MAX:
        raise OSError(errno.ERANGE, f"a priority is from {int(Priority.MIN)} to {int(Priority.MAX)}, not {of}")
    return int(of)


def _text(of: Optional[str], what: str) -> Optional[bytes]:
    """None stays None. A name with a NUL in it would be another name."""
    if of is None:
        return None
    if "\0" in of:
        raise OSError(errno.EINVAL, f"{what} has a NUL in it")
    return of.encode()


def _ns(seconds: float, what: str) -> int:
    if not 0 <= seconds < 1e9:
        raise OSError(errno.EINVAL, f"{what} is a number of seconds, not {seconds}")
    return round(seconds * 1e9)


def _hint(which: HintLike, value: int) -> int:
    """The number of a hint that may have this value."""
    if isinstance(which, str):
        name = which.upper().replace("-", "_")
        if name not in Hint.__members__:
            raise OSError(errno.EINVAL, f"there is no hint '{which}'")
        which = Hint[name]
    if not -(2**63) <= value < 2**63:
        raise OSError(errno.ERANGE, f"{value} is no value of a hint")
    return int(which)


def available() -> bool:
    """Whether Fermata's library for CUDA is in this process. bind_queue() does not need it."""
    return _abi.find("fm_cuda_init") is not None


def init(policy: Optional[str] = None, *, guardian: bool = False, spin: float = 0.0) -> None:
    """Optional, before anything of CUDA is used. policy: schedule in this process by it ("fixed-priority", "fair slice=2");
    None: by the environment or a daemon. guardian: stop kernels between two of their blocks. spin: seconds that Fermata's
    thread polls before it sleeps, at most 0.01."""
    text = _text(policy, "a policy")
    _must("fm_cuda_init", ctypes.byref(_abi.Options(ctypes.sizeof(_abi.Options), text, guardian, _ns(spin, "spin"))))


def scheduled() -> bool:
    """Whether this process is scheduled at present, by a daemon or by itself."""
    function = _abi.find("fm_cuda_scheduled")
    return bool(function and function())


# --- groups ---


@dataclasses.dataclass(frozen=True)
class Group:
    """A group's name, and what streams get that join it."""

    name: str
    priority: PriorityLike = None
    level: int = 0

    def bind(self, of: Any, **more: Any) -> None:
        """As bind(), to this group."""
        bind(of, self.name, more.pop("priority", self.priority), level=more.pop("level", self.level), **more)

    def stream(self, place: Place = Place.WHOLE) -> Stream:
        """As stream(), in this group."""
        return stream(place, self.name, self.priority, level=self.level)


_current: contextvars.ContextVar[Optional[Group]] = contextvars.ContextVar("fermata_group", default=None)


@contextlib.contextmanager
def group(name: str, priority: PriorityLike = None, *, level: int = 0) -> Iterator[Group]:
    """Within the block, streams and queues that are bound or made without a group's name join this group. They stay in it after
    the block. It holds for this thread (or task of asyncio). level: of CUDA streams alone."""
    _priority(priority)
    joined = Group(name, priority, level)
    token = _current.set(joined)
    try:
        yield joined
    finally:
        _current.reset(token)


# --- binding ---

# What to call for a binding, by a number that the library hands back (0: never); and the binding of each stream that has some.
_told: dict[int, tuple[Optional[StreamCallback], Optional[StreamCallback]]] = {}
_number_of: dict[int, int] = {}
_numbers = itertools.count(1)


def _dispatcher(which: int) -> Any:
    """These live as long as the process: one that ends a binding may be in the middle of its callback."""

    def dispatch(stream_handle: Optional[int], at_ns: int, number: Optional[int]) -> None:
        told = _told.get(number or 0, (None, None))[which]
        if told:
            told(stream_handle or 0, at_ns)

    return _abi.Callback(dispatch)


_PREEMPTED, _RESUMED = _dispatcher(0), _dispatcher(1)


def _drop(stream_handle: int) -> None:
    _told.pop(_number_of.pop(stream_handle, 0), None)


def _forget() -> None:
    _told.clear()
    _number_of.clear()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _unbind_those_that_call() -> None:
    """So that no callback comes into an interpreter that ends. A stream that is busy stays bound."""
    for stream_handle in list(_number_of):
        _abi.call("fm_cuda_unbind", stream_handle)


def _binding(name: Optional[str], priority: PriorityLike, level: int) -> _abi.Binding:
    joined = _current.get()
    if name is None and joined is not None:
        name, level = joined.name, level or joined.level
        priority = joined.priority if priority is None else priority
    if not 0 <= level <= 3:
        raise OSError(errno.EINVAL, f"a level is from 1 to 3, or 0 for the deepest, not {level}")
    return _abi.Binding(ctypes.sizeof(_abi.Binding), _text(name, "a group's name"), _priority(priority), level)


def bind(of: Any, name: Optional[str] = None, priority: PriorityLike = None, *, level: int = 0,
         preempted: Optional[StreamCallback] = None, resumed: Optional[StreamCallback] = None) -> None:
    """Binds an idle stream to a group; None: that of the group() block, or the process's own. priority: of the group, a
    number or "low", "normal", "high", "realtime"; None: as it is. level: deepest level of preemption; 0: the deepest possible.
    preempted, resumed: called as f(stream, at_ns) in a thread of Fermata's own when the stream loses the device and gets it
    back."""
    binding, stream_handle, number = _binding(name, priority, level), _handle(of), 0
    if preempted or resumed:
        number = binding.ctx = next(_numbers)
        if preempted:
            binding.preempted = _PREEMPTED
        if resumed:
            binding.resumed = _RESUMED
        _told[number] = (preempted, resumed)
    try:
        _must("fm_cuda_bind", stream_handle, ctypes.byref(binding))
    except OSError:
        _told.pop(number, None)
        raise
    _drop(stream_handle)
    if number:
        _number_of[stream_handle] = number


def unbind(of: Any) -> None:
    """Returns an idle stream to the process's own group. No callback begins after that."""
    stream_handle = _handle(of)
    _must("fm_cuda_unbind", stream_handle)
    _drop(stream_handle)


def hint(of: Any, which: HintLike, value: int) -> None:
    """Sets a hint of the stream's group: Hint.DEADLINE or "deadline". Times are nanoseconds, memory is bytes."""
    number = _hint(which, value)
    _must("fm_cuda_hint", _handle(of), number, value)


# --- queues of any API ---


def _queue(api: str, of: Any) -> tuple[bytes, int]:
    """The API's name and the driver's own handle; PyOpenCL's queues have it as int_ptr."""
    handle = getattr(of, "int_ptr", None)
    handle = handle if isinstance(handle, int) else _handle(of)
    if not 0 < handle < 2**64:
        raise OSError(errno.EINVAL, f"{handle} is no queue")
    return _text(api, "an API's name") or b"", handle


def _queue_binding(name: Optional[str], priority: PriorityLike, hints: Optional[Mapping[HintLike, int]]) -> _abi.QueueBinding:
    joined, values = _current.get(), []
    if name is None and joined is not None:
        name = joined.name
        priority = joined.priority if priority is None else priority
    if priority is not None:
        values.append((int(Hint.PRIORITY), _priority(priority)))
    values += [(_hint(which, value), value) for which, value in (hints or {}).items()]
    array = (_abi.QueueHint * len(values))(*[_abi.QueueHint(which, value) for which, value in values])
    return _abi.QueueBinding(ctypes.sizeof(_abi.QueueBinding), _text(name, "a group's name"), array, len(values))


def bind_queue(api: str, queue: Any, name: Optional[str] = None, priority: PriorityLike = None, *,
               hints: Optional[Mapping[HintLike, int]] = None) -> None:
    """Binds a queue of a device API (fm_bind) to a group; None: that of the group() block, or the process's own. api: one of APIS.
    queue: the driver's own handle as a number, or an object that has it, such as pyopencl.CommandQueue. priority, hints: what the
    group gets with this call, {"deadline": 5_000_000}; others stay as they are."""
    of, handle = _queue(api, queue)
    _must("fm_bind", of, handle, ctypes.byref(_queue_binding(name, priority, hints)))


def unbind_queue(api: str, queue: Any) -> None:
    """Returns a queue to the process's own group (fm_unbind)."""
    of, handle = _queue(api, queue)
    _must("fm_unbind", of, handle)


def _bind_thread(binding: Any) -> bool:
    if _abi.find("fm_thread_bind") is None:
        _fail("fm_thread_bind", errno.ENOSYS)
    rc = _abi.call("fm_thread_bind", binding)
    if rc not in (0, -errno.ENOSYS):
        _fail("fm_thread_bind", -rc)
    return rc == 0


def bind_thread(name: Optional[str] = None, priority: PriorityLike = None, *, hints: Optional[Mapping[HintLike, int]] = None) -> bool:
    """Binds what this thread begins from now on (fm_thread_bind): a queue of any API that comes to the scheduler in this thread joins
    the group, whatever library makes it. Until it is bound otherwise, or unbind_thread(). False: no shim of any API is in this
    process yet; those that come later heed it."""
    return _bind_thread(ctypes.byref(_queue_binding(name, priority, hints)))


def unbind_thread() -> None:
    """What this thread begins is not bound any more. Queues that are there stay in their groups."""
    _bind_thread(None)


def suspend(of: Any, *, wait: bool = False, timeout: Optional[float] = None) -> None:
    """Suspends a bound stream, whatever the policy says. wait: return when it has stopped, or raise TimeoutError after so many
    seconds; the stream is suspended all the same."""
    _must("fm_cuda_suspend", _handle(of), wait, FOREVER if timeout is None else _ns(timeout, "timeout"))


def resume(of: Any) -> None:
    _must("fm_cuda_resume", _handle(of))


@dataclasses.dataclass(frozen=True)
class Info:
    """struct fm_cuda_info: the state of a stream."""

    level: int
    levels: tuple[int, ...]
    submitted: int
    completed: int
    device_ns: int
    gates: int
    preemptions: int
    interrupts: int
    guarded: int
    kernels: int
    kernels_left: int
    images_left: int
    bound: bool
    suspended: bool
    stalled: bool
    scheduled: bool


def query(of: Any) -> Info:
    """The state of a bound stream, or of one that was launched into."""
    raw = _abi.Info(ctypes.sizeof(_abi.Info))
    _must("fm_cuda_query", _handle(of), ctypes.byref(raw))
    values = {f.name: getattr(raw, f.name) for f in dataclasses.fields(Info)}
    values["levels"] = tuple(n for n in range(32) if raw.levels >> n & 1)
    return Info(**values)


# --- versions of a kernel ---


@dataclasses.dataclass(frozen=True)
class Room:
    """struct fm_cuda_room: how much of the device a stream's next commands have now, in multiprocessors."""

    multiprocessors: int
    place: int
    free: int
    pad: int
    urgent: bool
    padding: bool


def room(of: Any) -> Room:
    """How much of the device a stream has now: one that is bound, or was launched into."""
    raw = _abi.Room(ctypes.sizeof(_abi.Room))
    _must("fm_cuda_room", _handle(of), ctypes.byref(raw))
    return Room(**{f.name: getattr(raw, f.name) for f in dataclasses.fields(Room)})


@dataclasses.dataclass(frozen=True)
class Version:
    """struct fm_cuda_version: what one of several kernels that compute the same needs. `fermata-lab profile --rooms` measures
    it."""

    time_ns: int
    block_ns: int
    registers: int
    shared: int
    threads: int
    blocks: int
    per_multiprocessor: int


def _versions(versions: Sequence[Version]) -> Any:
    for v in versions:
        for f in dataclasses.fields(v):
            if not 0 <= getattr(v, f.name) < 2 ** (64 if f.name.endswith("_ns") else 32):
                raise OSError(errno.EINVAL, f"{f.name}={getattr(v, f.name)} is no number of a version")
    return (_abi.Version * len(versions))(*[dataclasses.astuple(v) for v in versions])


def prune(versions: Sequence[Version]) -> list[int]:
    """The indices of the versions worth keeping: a version goes that another one dominates, which is no larger in any of the
    first six numbers."""
    kept = (ctypes.c_bool * len(versions))()
    rc = _abi.call("fm_cuda_prune", _versions(versions), len(versions), kept)
    if rc < 0:
        _fail("fm_cuda_prune", -rc)
    return [i for i, keep in enumerate(kept) if keep]


def fit(versions: Sequence[Version], where: Room, block_ns: int = 0) -> Optional[int]:
    """The index of the version that takes the shortest time in what is free there, among those whose blocks take no longer than
    block_ns (0: any); None: there is none, or nothing is free."""
    if not 0 <= block_ns < 2**64:
        raise OSError(errno.EINVAL, f"block_ns={block_ns} is no time")
    raw = _abi.Room(ctypes.sizeof(_abi.Room), *dataclasses.astuple(where))
    rc = _abi.call("fm_cuda_fit", _versions(versions), len(versions), ctypes.byref(raw), block_ns)
    if rc < 0 and rc != -errno.ENOENT:
        _fail("fm_cuda_fit", -rc)
    return None if rc < 0 else rc


# --- partitions ---


def reserve(sms: int) -> int:
    """Reserves at least so many multiprocessors of the current device; how many it got."""
    if not 0 < sms < 2**32:
        raise OSError(errno.EINVAL, f"{sms} is no number of multiprocessors")
    got = ctypes.c_uint()
    _must("fm_cuda_reserve", sms, ctypes.byref(got))
    return got.value


def _driver(name: str) -> Any:
    """A function of the CUDA driver; the shim is between."""
    function = getattr(ctypes.CDLL("libcuda.so.1"), name)
    function.argtypes = [ctypes.c_void_p]
    return function


class Stream:
    """A stream that stream() made. For PyTorch: torch.cuda.ExternalStream(s.cuda_stream). close() destroys it, as the end of a
    `with` block does; a stream that is not closed lives as long as the process."""

    def __init__(self, cuda_stream: int):
        self.cuda_stream = cuda_stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def close(self) -> None:
        """The commands in it run to their end."""
        if self.cuda_stream:
            _driver("cuStreamDestroy_v2")(self.cuda_stream)
            _drop(self.cuda_stream)
            self.cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def stream(place: Place = Place.WHOLE, name: Optional[str] = None, priority: PriorityLike = None, *, level: int = 0) -> Stream:
    """Makes a stream in a place of the current device, and binds it as bind() does."""
    made, binding = ctypes.c_void_p(), _binding(name, priority, level)
    _must("fm_cuda_stream_create", ctypes.byref(made), int(place), ctypes.byref(binding))
    return Stream(made.value or 0)


class Elastic:
    """A best-effort queue that uses the partition's multiprocessors while the partition has been idle for `idle` seconds. By
    one thread at a time."""

    def __init__(self, idle: float, name: Optional[str] = None, priority: PriorityLike = None, *, level: int = 0):
        self._made, binding = ctypes.c_void_p(), _binding(name, priority, level)
        _must("fm_cuda_elastic_create", ctypes.byref(self._made), _ns(idle, "idle"), ctypes.byref(binding))

    def stream(self) -> int:
        """The CUstream for the next batch of commands."""
        at = ctypes.c_void_p()
        if not self._made:
            raise OSError(errno.EINVAL, "it is closed")
        _must("fm_cuda_elastic_stream", self._made, ctypes.byref(at))
        return at.value or 0

    def close(self) -> None:
        made, self._made = self._made, ctypes.c_void_p()
        if made:
            _must("fm_cuda_elastic_destroy", made)

    def __enter__(self) -> Elastic:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- memory ---


def _range(at: Any, size: Optional[int]) -> tuple[int, int]:
    """A number and a size; or a tensor, as a whole."""
    if isinstance(at, int):
        if size is None:
            raise TypeError("an address needs a size")
        return at, size
    if callable(getattr(at, "data_ptr", None)):
        return int(at.data_ptr()), int(at.numel() * at.element_size()) if size is None else size
    raise TypeError(f"{type(at).__name__} is neither an address nor a tensor")


def want(at: Any, size: Optional[int] = None, *, use: Use) -> None:
    """What this device memory is used for next (fm_memory_want): an address with a size, or a tensor of PyTorch's."""
    address, n = _range(at, size)
    if not 0 < n < 2**64:
        raise OSError(errno.EINVAL, f"{n} is no size")
    _must("fm_memory_want", address, n, int(use))


@dataclasses.dataclass(frozen=True)
class MemoryStat:
    """struct fm_memory_stat: bytes, by where they are."""

    device: int
    host: int
    mapped: int
    empty: int
    unmanaged: int
    pinned: int


def stat(at: Any, size: Optional[int] = None) -> MemoryStat:
    """Where this memory is now."""
    address, n = _range(at, size)
    if not 0 < n < 2**64:
        raise OSError(errno.EINVAL, f"{n} is no size")
    raw = _abi.MemoryStat(ctypes.sizeof(_abi.MemoryStat))
    _must("fm_memory_stat", address, n, ctypes.byref(raw))
    return MemoryStat(*(getattr(raw, f.name) for f in dataclasses.fields(MemoryStat)))
