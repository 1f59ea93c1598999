# SPDX-License-Identifier: Apache-2.0
"""<fermata/bind.h> from Python: a case of test_bind.py. The queues are those of any_apis.c, as a library. Whatever is not as it should
be ends it with a traceback.

usage: bind_python.py LIBRARY CASE API..."""
import ctypes
import errno
import os
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "python"))
any_apis = ctypes.CDLL(sys.argv[1])
any_apis.any_queue.restype, any_apis.any_queue.argtypes = ctypes.c_void_p, [ctypes.c_char_p]


def new_queue(api):
    return any_apis.any_queue(api.encode())


late = new_queue("opencl") if sys.argv[2] == "late" else None
import fermata


def fails(code, fn, *arguments, **more):
    try:
        fn(*arguments, **more)
    except OSError as e:
        assert e.errno == code and str(e), repr(e)
        return
    raise AssertionError(f"{fn.__name__}{arguments} should fail with {errno.errorcode[code]}")


def step(what):
    """The daemon is looked at now."""
    print(what, flush=True)
    assert sys.stdin.readline() == "go on\n"


class Pyopencl:
    """A queue as PyOpenCL's."""

    def __init__(self, handle):
        self.int_ptr = handle


def binds(apis):
    queues = {api: new_queue(api) for api in apis}
    for api, queue in queues.items():
        fermata.bind_queue(api, queue, f"{api}-urgent", "high", hints={"weight": 7, fermata.Hint.DEADLINE: 5_000_000})
    step("bound")
    for api, queue in queues.items():
        fermata.bind_queue(api, Pyopencl(queue) if api == "opencl" else ctypes.c_void_p(queue), "team")
    step("together")
    with fermata.group("joined", 9, level=2):
        for api, queue in queues.items():
            fermata.bind_queue(api, queue)
    step("joined")
    for api, queue in queues.items():
        fermata.unbind_queue(api, queue)
        fails(errno.ENOENT, fermata.unbind_queue, api, queue)
    any_apis.any_round()  # a CUDA stream that is in no group of its own comes again with its next command
    step("unbound")


def threads(apis):
    fermata.bind_thread("early", 3)  # also for shims that come later
    for api in apis:
        new_queue(api)
    step("early")
    assert fermata.bind_thread("mine", hints={"priority": 5})
    for api in apis:
        new_queue(api)
    other = threading.Thread(target=lambda: [new_queue(api) for api in apis])
    other.start()
    other.join()
    step("mine")
    fermata.unbind_thread()
    for api in apis:
        new_queue(api)
    step("own")


def mistakes(apis):
    api, queue = apis[0], new_queue(apis[0])
    for bad in ("a/b", "", "x" * 64):
        fails(errno.EINVAL, fermata.bind_queue, api, queue, bad)
        fails(errno.EINVAL, fermata.bind_thread, bad)
    fails(errno.EINVAL, fermata.bind_queue, api, queue, "a\0b")
    fails(errno.EINVAL, fermata.bind_queue, api + "\0", queue, "urgent")
    for none in (0, -1, 2**64, 2**64 + queue):
        fails(errno.EINVAL, fermata.bind_queue, api, none, "urgent")
        fails(errno.EINVAL, fermata.unbind_queue, api, none)
    fails(errno.ENOSYS, fermata.bind_queue, "none", queue, "urgent")
    fails(errno.ERANGE, fermata.bind_queue, api, queue, "urgent", 256)
    fails(errno.ERANGE, fermata.bind_queue, api, queue, "urgent", hints={"priority": 256})
    fails(errno.ERANGE, fermata.bind_thread, "urgent", hints={"weight": 2**63})
    fails(errno.EINVAL, fermata.bind_queue, api, queue, "urgent", hints={"none": 1})
    fails(errno.EINVAL, fermata.bind_queue, api, queue, "urgent", "urgent")
    for nothing in (None, "q", 1.5):
        try:
            fermata.bind_queue(api, nothing, "urgent")
        except TypeError:
            continue
        raise AssertionError(f"{nothing} is no queue")
    for n in range(15):
        fermata.bind_queue(api, queue, f"g{n}")
    fails(errno.ENOSPC, fermata.bind_queue, api, queue, "g15")
    step("bound")


def is_late(apis):
    """The shim was there before the module."""
    fermata.bind_queue("opencl", late, "urgent")
    assert fermata.bind_thread("mine")
    new_queue("opencl")
    step("bound")


def without(apis):
    """No shim is in the process."""
    for api in apis:
        queue = new_queue(api)
        fails(errno.ENOSYS, fermata.bind_queue, api, queue, "urgent")
        fails(errno.ENOSYS, fermata.unbind_queue, api, queue)
    fails(errno.ENOSYS, fermata.bind_thread, "urgent")
    fails(errno.ENOSYS, fermata.unbind_thread)


{"binds": binds, "threads": threads, "mistakes": mistakes, "late": is_late, "without": without}[sys.argv[2]](sys.argv[3:])
print("done", flush=True)
