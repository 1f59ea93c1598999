# SPDX-License-Identifier: Apache-2.0
"""The structures, constants and functions of <fermata/cuda.h>, <fermata/bind.h>, <fermata/hint.h> and <fermata/memory.h>. A test
compares them with the headers. And where the libraries are."""
from __future__ import annotations

import ctypes
import enum
import errno
import os
import re
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

PRIORITY_KEEP = -(2**31)
FOREVER = 2**64 - 1
PAD_AUTO, PAD_DEVICE = -1, -2  # of the hint PAD


def PAD_AUTO_AT(percent: int) -> int:
    """A value of the hint PAD: as many multiprocessors as make more urgent work `percent` % longer at most, from 1 to 50."""
    if not 1 <= percent <= 50:
        raise OSError(errno.ERANGE, f"PAD_AUTO_AT({percent}): give 1 to 50")
    return -100 - percent


class Hint(enum.IntEnum):
    """enum fm_hint. Times are nanoseconds, memory is bytes."""

    PRIORITY = 0
    WEIGHT = 1
    SHARE = 2
    DEADLINE = 3
    PERIOD = 4
    SLICE = 5
    RUNTIME = 6
    FOREGROUND = 7
    LATENCY_NICE = 8
    GANG = 9
    LEVEL = 10
    GUARD_FROM = 11
    MEMORY_LIMIT = 12
    MEMORY_REQUEST = 13
    MEMORY_PIN = 14
    IDLE_OUT = 15
    PAD = 16


class Priority(enum.IntEnum):
    """FM_PRIORITY_*: a priority is any number from MIN to MAX; a larger one is more urgent."""

    MIN = -255
    LOW = -64
    NORMAL = 0
    HIGH = 64
    REALTIME = 128
    MAX = 255


class Place(enum.IntEnum):
    """enum fm_cuda_place: where a stream is made."""

    WHOLE = 0
    PARTITION = 1
    REST = 2
    BY_GROUP = 3


class Use(enum.IntEnum):
    """enum fm_memory_use: what is said of device memory."""

    SOON = 0
    COLD = 1
    PIN = 2
    UNPIN = 3


Callback = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_void_p)


class Options(ctypes.Structure):
    """struct fm_cuda_options"""

    _fields_ = [("size", c_size_t), ("local_policy", c_char_p), ("guardian", c_bool), ("spin_ns", c_uint64)]


class Binding(ctypes.Structure):
    """struct fm_cuda_binding"""

    _fields_ = [("size", c_size_t), ("group", c_char_p), ("priority", c_int32), ("level", c_uint), ("preempted", Callback),
                ("resumed", Callback), ("ctx", c_void_p), ("pad", c_int32)]


class QueueHint(ctypes.Structure):
    """struct fm_binding_hint"""

    _fields_ = [("hint", c_int), ("value", c_int64)]


class QueueBinding(ctypes.Structure):
    """struct fm_binding"""

    _fields_ = [("size", c_size_t), ("group", c_char_p), ("hints", POINTER(QueueHint)), ("hint_count", c_size_t)]


class Info(ctypes.Structure):
    """struct fm_cuda_info"""

    _fields_ = [("size", c_size_t), ("level", c_uint), ("levels", c_uint), ("submitted", c_uint64), ("completed", c_uint64),
                ("device_ns", c_uint64), ("gates", c_uint64), ("preemptions", c_uint64), ("interrupts", c_uint64),
                ("guarded", c_uint64), ("kernels", c_uint64), ("kernels_left", c_uint64), ("images_left", c_uint64),
                ("bound", c_bool), ("suspended", c_bool), ("stalled", c_bool), ("scheduled", c_bool)]


class Room(ctypes.Structure):
    """struct fm_cuda_room"""

    _fields_ = [("size", c_size_t), ("multiprocessors", c_uint), ("place", c_uint), ("free", c_uint), ("pad", c_uint),
                ("urgent", c_bool), ("padding", c_bool)]


class Version(ctypes.Structure):
    """struct fm_cuda_version"""

    _fields_ = [("time_ns", c_uint64), ("block_ns", c_uint64), ("registers", c_uint32), ("shared", c_uint32),
                ("threads", c_uint32), ("blocks", c_uint32), ("per_multiprocessor", c_uint32), ("unused", c_uint32)]


class MemoryStat(ctypes.Structure):
    """struct fm_memory_stat"""

    _fields_ = [("size", c_size_t), ("device", c_uint64), ("host", c_uint64), ("mapped", c_uint64), ("empty", c_uint64),
                ("unmanaged", c_uint64), ("pinned", c_uint64)]


FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "fm_cuda_init": (c_int, [POINTER(Options)]),
    "fm_cuda_scheduled": (c_bool, []),
    "fm_cuda_bind": (c_int, [c_void_p, POINTER(Binding)]),
    "fm_cuda_unbind": (c_int, [c_void_p]),
    "fm_cuda_hint": (c_int, [c_void_p, c_int, c_int64]),
    "fm_cuda_suspend": (c_int, [c_void_p, c_bool, c_uint64]),
    "fm_cuda_resume": (c_int, [c_void_p]),
    "fm_cuda_query": (c_int, [c_void_p, POINTER(Info)]),
    "fm_cuda_room": (c_int, [c_void_p, POINTER(Room)]),
    "fm_cuda_prune": (c_int, [POINTER(Version), c_size_t, POINTER(c_bool)]),
    "fm_cuda_fit": (c_int, [POINTER(Version), c_size_t, POINTER(Room), c_uint64]),
    "fm_cuda_reserve": (c_int, [c_uint, POINTER(c_uint)]),
    "fm_cuda_stream_create": (c_int, [POINTER(c_void_p), c_int, POINTER(Binding)]),
    "fm_cuda_elastic_create": (c_int, [POINTER(c_void_p), c_uint64, POINTER(Binding)]),
    "fm_cuda_elastic_stream": (c_int, [c_void_p, POINTER(c_void_p)]),
    "fm_cuda_elastic_destroy": (c_int, [c_void_p]),
    "fm_bind": (c_int, [c_char_p, c_void_p, POINTER(QueueBinding)]),
    "fm_unbind": (c_int, [c_char_p, c_void_p]),
    "fm_thread_bind": (c_int, [POINTER(QueueBinding)]),
    "fm_memory_want": (c_int, [c_void_p, c_size_t, c_int]),
    "fm_memory_stat": (c_int, [c_void_p, c_size_t, POINTER(MemoryStat)]),
}

_found: dict[str, Any] = {}


def _typed(library: ctypes.CDLL, name: str) -> Optional[Any]:
    function = getattr(library, name, None)
    if function is not None:
        function.restype, function.argtypes = FUNCTIONS[name]
    return function


def _is_shim(path: str) -> bool:
    return bool(re.fullmatch(r"libfermata-\w+\.so", os.path.basename(path)))


def _shims() -> list[str]:
    """The shims that this process has; loaders of APIs open some of them for themselves."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = ("/" + line.rstrip("\n").partition("/")[2] for line in maps)
        return list(dict.fromkeys(p for p in paths if _is_shim(p)))


def _libfermata(shims: list[str], mode: int) -> Optional[ctypes.CDLL]:
    """That of the installation, or the build, that the shims are of; or that of the system."""
    for path in [os.path.join(os.path.dirname(shim), "libfermata.so.0") for shim in shims[:1]] + ["libfermata.so.0"]:
        try:
            return ctypes.CDLL(path, mode)
        except OSError:
            continue
    return None


def _to_bind() -> Optional[ctypes.CDLL]:
    """libfermata for <fermata/bind.h>, whose registry all shims use that come later; one that is here has its own, which libfermata
    takes once everybody can see it."""
    here = _shims()
    for shim in here:
        ctypes.CDLL(shim, ctypes.RTLD_GLOBAL)
    to_come = [p for p in os.environ.get("OPENCL_LAYERS", "").split(":") if _is_shim(p)]
    return _libfermata(here + to_come, ctypes.RTLD_GLOBAL) if here or to_come else None


def find(name: str) -> Optional[Any]:
    """A function of the shim that this process runs with, or of libfermata; None: there is none."""
    if _found.get(name) is None:
        function, library = _typed(ctypes.CDLL(None), name), None
        if function is None and name.startswith("fm_memory_") and find("fm_cuda_init") is not None:
            library = _libfermata(_shims(), ctypes.DEFAULT_MODE)
        elif function is None and not name.startswith(("fm_memory_", "fm_cuda_")):
            library = _to_bind()
        _found[name] = function if library is None else _typed(library, name)
    return _found[name]


def call(name: str, *arguments: Any) -> int:
    """What it returns: 0, or a negative errno, which is -ENOSYS where it is not there."""
    function = find(name)
    return -errno.ENOSYS if function is None else int(function(*arguments))


find("fm_bind")  # before shims that loaders of APIs open for themselves
