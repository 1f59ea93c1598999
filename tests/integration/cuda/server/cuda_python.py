# SPDX-License-Identifier: Apache-2.0
"""A server in small, in Python: one case of those of test_cuda_python.py. Two streams of the fake driver's with counters that
the host sees. Whatever is not as it should be ends it with a traceback.

usage: cuda_python.py CASE PTX [POLICY]"""
import ctypes
import dataclasses
import errno
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4, "python"))
import fermata

KERNELS, KERNEL_NS, PATIENCE = 100, 300_000, 120
pointer, u64 = ctypes.c_void_p, ctypes.c_uint64
cu = ctypes.CDLL("libcuda.so.1")


def must(name, *arguments):
    rc = getattr(cu, name)(*arguments)
    assert not rc, f"{name}: {rc}"


def eventually(fn):
    until = time.monotonic() + PATIENCE
    while not fn():
        assert time.monotonic() < until, "never"
        time.sleep(0.002)


def fails(code, fn, *arguments, **more):
    try:
        fn(*arguments, **more)
    except OSError as e:
        assert e.errno == code and str(e), repr(e)
        return e
    raise AssertionError(f"{fn.__name__}{arguments} should fail with {errno.errorcode[code]}")


class Device:
    """The primary context, a kernel that takes time, and two words that the host sees."""

    def __init__(self, ptx):
        self.dev, self.ctx, module, self.spin = ctypes.c_int(), pointer(), pointer(), pointer()
        must("cuInit", 0)
        must("cuDeviceGet", ctypes.byref(self.dev), 0)
        must("cuDevicePrimaryCtxRetain", ctypes.byref(self.ctx), self.dev)
        must("cuCtxSetCurrent", self.ctx)
        with open(ptx, "rb") as f:
            must("cuModuleLoadData", ctypes.byref(module), f.read() + b"\0")
        must("cuModuleGetFunction", ctypes.byref(self.spin), module, b"spin")
        self.words, self.at = self.host_words()
        self.flag, self.flag_at = self.host_words()

    @staticmethod
    def host_words():
        host, device = pointer(), u64()
        must("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(4096), 3)
        must("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        words = (ctypes.c_uint32 * 1024).from_address(host.value)
        words[0] = words[1] = 0
        return words, device.value

    @staticmethod
    def stream():
        s = pointer()
        must("cuStreamCreate", ctypes.byref(s), 1)
        return s.value

    def work(self, stream, which, kernels=KERNELS):
        out, ns = u64(self.at + 4 * which), u64(KERNEL_NS)
        arguments = (pointer * 2)(ctypes.addressof(out), ctypes.addressof(ns))
        for _ in range(kernels):
            must("cuLaunchKernel", self.spin, 1, 1, 1, 1, 1, 1, 0, pointer(stream), arguments, None)

    def stand(self, stream):
        """What follows in the stream waits until it is let go, whatever Fermata does."""
        self.flag[0] = 0
        must("cuStreamWaitValue32_v2", pointer(stream), u64(self.flag_at), 1, 1)

    def let_go(self):
        self.flag[0] = 1

    @staticmethod
    def wait(stream):
        must("cuStreamSynchronize", pointer(stream))

    def has_run(self, which, kernels):
        value = 0
        for _ in range(kernels):
            value = (value * 3 + 1) % 2**32
        assert self.words[which] == value, f"{self.words[which]} instead of {value}"


class Torch:
    """As torch.cuda.Stream."""

    def __init__(self, cuda_stream):
        self.cuda_stream = cuda_stream


def without(d):
    assert not fermata.available() and not fermata.scheduled()
    s = d.stream()
    for fn, arguments in ((fermata.init, ()), (fermata.bind, (s, "a")), (fermata.unbind, (s,)), (fermata.hint, (s, "weight", 3)),
                          (fermata.suspend, (s,)), (fermata.resume, (s,)), (fermata.query, (s,)), (fermata.reserve, (8,)),
                          (fermata.room, (s,)), (fermata.prune, ([],)), (fermata.fit, ([], fermata.Room(8, 8, 8, 0, False, False))),
                          (fermata.stream, ()), (fermata.Elastic, (0.1,))):
        fails(errno.ENOSYS, fn, *arguments)
    fails(errno.ENOSYS, fermata.want, 4096, 4096, use=fermata.Use.SOON)
    d.work(s, 0)
    d.wait(s)
    d.has_run(0, KERNELS)


def preempts(d):
    """The urgent group has work: the other one stops, is told so, and goes on."""
    told, urgent, batch = [], d.stream(), Torch(d.stream())
    with fermata.group("urgent", "high"):
        fermata.bind(urgent)
        with fermata.group("batch", fermata.Priority.LOW, level=2) as group:
            group.bind(batch, preempted=lambda s, at: told.append(("preempted", s, at)),
                       resumed=lambda s, at: told.append(("resumed", s, at)))
    assert fermata.scheduled() and fermata.query(urgent).bound
    assert fermata.query(batch).level == 2 and {1, 2} <= set(fermata.query(batch).levels)
    d.stand(urgent)
    d.work(urgent, 0, 1)
    d.work(batch.cuda_stream, 1)
    eventually(lambda: told)
    now = fermata.query(batch)
    assert now.stalled and not now.scheduled and not now.suspended, now
    at = fermata.room(batch)
    assert at.urgent and not at.free and not at.pad and at.place == at.multiprocessors > 0, at
    assert not fermata.room(urgent).urgent and fermata.room(urgent).free == at.multiprocessors, fermata.room(urgent)
    before = d.words[1]
    print("stopped", flush=True)
    sys.stdin.readline()
    assert d.words[1] == before
    d.let_go()
    d.wait(urgent)
    d.wait(batch.cuda_stream)
    d.has_run(0, 1)
    d.has_run(1, KERNELS)
    eventually(lambda: len(told) >= 2)
    assert [t[0] for t in told[:2]] == ["preempted", "resumed"] and {t[1] for t in told} == {batch.cuda_stream}, told
    assert all(t[2] <= time.monotonic_ns() for t in told)
    now = fermata.query(batch)
    assert now.preemptions >= 1 and now.completed == now.submitted >= KERNELS and now.device_ns, now
    fermata.unbind(batch)
    fails(errno.ENOENT, fermata.unbind, batch)


def binds_anew(d):
    """In a callback, to other callbacks; and no call of the earlier ones comes afterwards."""
    told, s = [], d.stream()

    def first(stream, _):
        told.append("first")
        fermata.resume(stream)

    def stop():
        fermata.suspend(s)
        d.work(s, 0, 20)

    fermata.bind(s, "one", preempted=first)
    stop()
    d.wait(s)
    eventually(lambda: told)
    fermata.bind(s, "two", preempted=lambda stream, _: (told.append("second"), fermata.resume(stream)))
    del told[:]
    stop()
    d.wait(s)
    eventually(lambda: told)
    assert set(told) == {"second"}, told
    fermata.bind(s, "one")
    assert not fermata._told and not fermata._number_of
    stop()
    fermata.resume(s)
    d.wait(s)


def errors(d):
    s, other = d.stream(), d.stream()
    for bad in (0, 1, 2):
        fails(errno.EINVAL, fermata.bind, bad, "a")
    for bad in ("", "a b", "a/b", "x" * 64, "\0", "a\0b", "ä"):
        fails(errno.EINVAL, fermata.bind, s, bad)
    fails(errno.ERANGE, fermata.bind, s, "a", 256)
    fails(errno.EINVAL, fermata.bind, s, "a", "urgent")
    fails(errno.EINVAL, fermata.bind, s, "a", level=4)
    fails(errno.ENOENT, fermata.unbind, s)
    fails(errno.ENOENT, fermata.query, s)
    fails(errno.ENOENT, fermata.hint, s, "weight", 1)
    fails(errno.EBUSY, fermata.init)  # the driver is in use
    for bad in ("stream", None, 1.5):
        try:
            fermata.bind(bad, "a")
        except TypeError:
            continue
        raise AssertionError(bad)
    fermata.bind(s, "a")
    fails(errno.ERANGE, fermata.hint, s, "weight", 10001)
    fails(errno.ERANGE, fermata.hint, s, "weight", 2**63)
    fails(errno.EINVAL, fermata.hint, s, "no-such", 1)
    fails(errno.EINVAL, fermata.hint, s, 999, 1)
    fermata.hint(s, fermata.Hint.DEADLINE, 20_000_000)
    for percent in 1, 50:
        fermata.hint(s, "pad", fermata.PAD_AUTO_AT(percent))
    for percent in 0, 51, -108:  # the last would be 8 multiprocessors
        fails(errno.ERANGE, fermata.PAD_AUTO_AT, percent)
    fermata.hint(s, "pad", fermata.PAD_DEVICE)
    fermata.hint(s, "latency-nice", -3)
    d.stand(s)
    fails(errno.EBUSY, fermata.bind, s, "a")
    fails(errno.EBUSY, fermata.unbind, s)
    d.work(s, 0, 1)
    assert isinstance(fails(errno.ETIMEDOUT, fermata.suspend, s, wait=True, timeout=0.001), TimeoutError)
    assert fermata.query(s).suspended
    fermata.resume(s)
    d.let_go()
    d.wait(s)
    for n in range(14):
        fermata.bind(other, f"group-{n}")
    fails(errno.ENOSPC, fermata.bind, other, "one-too-many")
    fails(errno.EINVAL, fermata.suspend, s, wait=True, timeout=-1)
    fails(errno.EINVAL, fermata.reserve, 0)


def versions(d):
    s = d.stream()
    fermata.bind(s, "a")
    fast, short, worse = (fermata.Version(54000, 31000, 128, 32768, 256, 260, 1), fermata.Version(60000, 18000, 64, 8192, 128, 1040, 4),
                          fermata.Version(60000, 31000, 128, 32768, 256, 261, 1))
    at = fermata.room(s)
    assert fermata.prune([fast, short, worse]) == [0, 1] and fermata.prune([]) == []
    assert fermata.fit([fast, short], at) == 0 and fermata.fit([fast, short], at, 20000) == 1
    few = dataclasses.replace(at, free=16)
    assert fermata.fit([fast, short], few) == 1 and fermata.fit([fast, short], few, 10000) is None
    assert fermata.fit([fast], dataclasses.replace(at, free=0)) is None
    fails(errno.EINVAL, fermata.fit, [fast], at, -1)
    fails(errno.EINVAL, fermata.prune, [dataclasses.replace(fast, blocks=2**32)])
    fails(errno.EINVAL, fermata.prune, [fast] * 70000)
    fails(errno.ENOENT, fermata.room, d.stream())
    fails(errno.EINVAL, fermata.room, 0)


def partition(d):
    fails(errno.ENOENT, fermata.stream, fermata.Place.PARTITION, "urgent")
    got = fermata.reserve(3)
    assert got >= 3 and fermata.reserve(3) == got
    fails(errno.EBUSY, fermata.reserve, got + 40)
    with fermata.stream(fermata.Place.PARTITION, "urgent", "high") as fast, fermata.group("batch", "low") as batch:
        rest = batch.stream(fermata.Place.REST)
        assert fermata.room(fast).place == got and fermata.room(rest).place == fermata.room(rest).multiprocessors - got
        for which, s in enumerate((fast, rest)):
            assert fermata.query(s).bound
            d.work(s.cuda_stream, which, 10)
        for which, s in enumerate((fast, rest)):
            d.wait(s.cuda_stream)
            d.has_run(which, 10)
        with fermata.Elastic(0.0) as queue:
            s = queue.stream()
            d.work(s, 0, 10)
            d.wait(s)
        d.has_run(0, 20)
        fails(errno.EINVAL, queue.stream)
        rest.close()
        rest.close()


def forks(d):
    """The child has nothing bound, and knows it."""
    s = d.stream()
    fermata.bind(s, "a", preempted=lambda *_: None)
    child = os.fork()
    if not child:
        os._exit(1 if fermata._told or fermata._number_of else 0)
    assert os.waitpid(child, 0)[1] == 0 and fermata._told
    fermata.unbind(s)
    assert not fermata._told


def memory(d):
    at, size = u64(), 8 << 20
    must("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
    there = fermata.stat(at.value, size)
    assert sum((there.device, there.host, there.mapped, there.empty, there.unmanaged)) == size and not there.unmanaged, there
    for use in (fermata.Use.SOON, fermata.Use.COLD, fermata.Use.SOON):
        fermata.want(at.value, size, use=use)
    fermata.want(at.value, size, use=fermata.Use.PIN)
    assert fermata.stat(at.value, size).pinned == size
    fermata.want(at.value, size, use=fermata.Use.UNPIN)
    fails(errno.ENOENT, fermata.want, d.at, 4096, use=fermata.Use.SOON)
    fails(errno.EINVAL, fermata.want, at.value, 0, use=fermata.Use.SOON)

    class Tensor:
        def data_ptr(self):
            return at.value

        def numel(self):
            return size // 4

        def element_size(self):
            return 4

    assert fermata.stat(Tensor()) == fermata.stat(at.value, size)


def main():
    case, ptx, *policy = sys.argv[1:]
    if policy:
        fermata.init(policy[0])
    globals()[case](Device(ptx))
    print("done", flush=True)


if __name__ == "__main__":
    main()
