# SPDX-License-Identifier: Apache-2.0
"""CUDA, for script/coverage."""
import re

# Calls that are given a stream, use the default one, or make the device work, and have no function of ours.
LEFT_ALONE = [
    ("questions: nothing is put onto the stream",
     "cuStreamGetPriority* cuStreamGetId* cuStreamGetFlags* cuStreamGetDevice* cuStreamGetCtx* cuStreamGetGreenCtx "
     "cuStreamGetAttribute* cuStreamIsCapturing* cuStreamGetCaptureInfo*"),
    ("a property of the stream: nothing is put onto it", "cuStreamSetAttribute* cuStreamCopyAttributes*"),
    ("what the next captured node comes after: nothing runs",
     "cuStreamUpdateCaptureDependencies* cuThreadExchangeStreamCaptureMode"),
    ("orders all streams of a context at once, and takes the device no time", "cuCtxWaitEvent cuGreenCtxWaitEvent"),
    ("composes or changes a graph: what is in it runs, and counts, when it is launched",
     "cuGraphAdd*Node cuGraphAddDependencies* cuGraphRemoveDependencies* "
     "cuGraph*NodeSetParams* cuGraphExec*NodeSetEvent cuGraphEvent*NodeSetEvent "
     "cuGraphKernelNodeSetAttribute cuGraphKernelNodeCopyAttributes cuGraphDestroyNode "
     "cuGraphConditionalHandleCreate"),
    ("of before CUDA 3.2: addresses of 32 bits, which nothing in a process of 64 bits has",
     "cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD cuMemcpyDtoA cuMemcpyAtoD cuMemcpyHtoA cuMemcpyAtoH cuMemcpyAtoA "
     "cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy3D cuMemcpyHtoAAsync cuMemcpyAtoHAsync cuMemcpyHtoDAsync "
     "cuMemcpyDtoHAsync cuMemcpyDtoDAsync cuMemcpy2DAsync cuMemcpy3DAsync cuMemsetD8 cuMemsetD16 cuMemsetD32 "
     "cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32 cuGLMapBufferObject cuGLMapBufferObjectAsync"),
    ("may wait in the driver for the other end of an EGL stream: it would count as work on the device meanwhile",
     "cuEGLStream*"),
    ("memory of the host; which devices may use memory, and how: on no stream; some wait for the device",
     "cuMemAllocHost* cuMemAdvise* cuMulticastCreate cuMulticastAddDevice "
     "cuFlushGPUDirectRDMAWrites cuCtxResetPersistingL2Cache "
     "cuGLRegisterBufferObject cuGLUnregisterBufferObject"),
    ("notices for the program, not work",
     "cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification"),
    ("stops, saves and restores a whole process, by the driver: it knows no streams", "cuCheckpointProcess*"),
]
LEFT_ALONE = [(why, names.split()) for why, names in LEFT_ALONE]

# What a function's name shows if it has no parameter of type CUstream.
SUSPECT = re.compile(
    r"Async|Launch|Memcpy|Memset|Prefetch|Stream|Synchronize|RecordEvent|WaitEvent|MapResources|MapBufferObject|"
    r"^cuGraph(?!ics)(Add|Clone|Create|Destroy|Exec|Instantiate|Remove|Upload|.*Set)|"
    r"^cuMem(Alloc|Create|Free|Import|Map|Release|Retain|Unmap|GetInfo)|^cuMemPool(Create|Destroy|TrimTo)|"
    r"^cu(Array|Mipmapped)\w*(Create|Destroy)|^cuIpc(Open|Close)Mem|GraphMemTrim|"
    r"^cu(Module|Library|Func)(Load|Unload)|^cuCheckpoint|^cuMulticast|^cuCtx(Attach|Destroy|Detach)|"
    r"^cuDevicePrimaryCtxRe|^cuGreenCtxDestroy|^cuEvent(Destroy|Query)")
QUESTION = re.compile(r"Get(?!ProcAddress|Info)|GetParams|Find|Occupancy|^cuFuncIsLoaded")

RESULT, PREFIX = "CUresult", "cu"
HEADERS = "cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"
DEFINES = ("-D__CUDA_API_VERSION_INTERNAL",)
TYPEDEFS = "cudaTypedefs.h", "cudaGLTypedefs.h", "cudaVDPAUTypedefs.h"
ELSEWHERE = "GL/gl.h", "EGL/egl.h", "EGL/eglext.h"  # is what they include, and need not be there

# What the headers have by other names than src/api/cuda/core/types.h, and of what they include.
TYPES = """
typedef unsigned GLuint, GLenum;
typedef uint32_t VdpDevice, VdpVideoSurface, VdpOutputSurface;
typedef void VdpGetProcAddress;
#define fm_cu_location CUmemLocation_st
#define fm_cu_memory_access CUmemAccessDesc_st
#define fm_cu_ipc_handle CUipcMemHandle_st
#define fm_cu_uuid CUuuid_st
#define CUDA_MEM_ALLOC_NODE_PARAMS_st CUDA_MEM_ALLOC_NODE_PARAMS_v1_st
#define fm_cu_mem_op CUstreamBatchMemOpParams_union
#define fm_cu_words_node CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st
typedef CUhostFn fm_cu_host_fn;
typedef CUstreamCallback fm_cu_stream_callback;
typedef CUoccupancyB2DSize fm_cu_shared_of;
typedef void (*fm_cu_differs)(void);
/* The table has whole numbers for enumerations. */
#define WHOLE(t) _Generic(*(__typeof__(t) *)0, int: 1, unsigned: 1, int *: 2, unsigned *: 2, default: 0)
#define SAME(a, b, what) \\
    _Static_assert(__builtin_types_compatible_p(a, b) || (WHOLE(a) && WHOLE(a) == WHOLE(b)), what);
"""


def concerns(name, params):
    """Is it a function of the headers that must be in the table, or be left alone?"""
    return re.search(r"\bCUstream\s*\*?\s*\w+", params) or (SUSPECT.search(name) and not QUESTION.search(name))


def versions(directory):
    """The versions for which cuGetProcAddress gives a function of a name."""
    found = {}
    for header in TYPEDEFS:
        for name, version in re.findall(r"\*PFN_(cu\w+?)_v(\d+)\)", (directory / header).read_text(errors="replace")):
            found.setdefault(name, set()).add(int(version))
    return found


# --- the page ---

GOVERNED = "kernel", "work", "order", "record", "graph"
CODE = "code", "load"


def is_governed(call):
    return call.kind in GOVERNED or call.facts.startswith("ORDERED,")


def is_code(call):
    return call.kind in CODE or (call.kind == "release" and call.facts.startswith("HOST,"))


def is_memory(call):
    return call.kind in ("alloc", "release") and not is_governed(call) and not is_code(call)


def facts_of(call):
    """One by one: there may be commas in them."""
    facts, depth = [""], 0
    for c in call.facts:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            facts.append("")
        else:
            facts[-1] += c
    return [fact.strip() for fact in facts]


def note(call):
    if call.facts.startswith("ORDERED,"):
        return "only orders; its memory counts"
    if call.kind in ("order", "record"):
        return "only orders"
    if call.kind == "graph":
        return "one command; counted as undivided if it is long and holds no gates"
    if call.kind != "work":
        return call.note
    waits = facts_of(call)[2]
    return {"0": "", "1": "tells that the stream is idle"}.get(
        waits, "tells that the stream is idle, if it copies to the host")


def rows(calls):
    lines = ["| entry point | per thread | since | notes |", "|---|---|---|---|"]
    for c in calls:
        version = f"{c.since // 1000}.{c.since % 1000 // 10}"
        clone = "_" + c.clone.rsplit("_", 1)[1] if c.clone else ""
        lines.append(f"| {c.symbol} | {clone} | {version} | {note(c)} |")
    return lines


def page(calls):
    governed, code, memory = ([c for c in calls if is_of(c)] for is_of in (is_governed, is_code, is_memory))
    followed = [c for c in calls if c not in governed + code + memory]

    def symbols(some):
        return sum(len(c.symbols()) for c in some)

    lines = ["# CUDA coverage", "",
             "Generated by `script/coverage cuda` from the shim's own tables; do not edit. The stream-ordered entry",
             "points of the driver API of CUDA 13.0, and five of 13.2.", "",
             "*per thread*: the suffix of the variant in which the NULL stream is the thread's own, covered as well.",
             "*since*: the version of CUDA for which `cuGetProcAddress` gives this function. The runtime API and the",
             "libraries above it come down to these calls.", "",
             "## Governed", "",
             "Commands of an XQueue: counted, gated, in the driver's order. What *only orders* takes the device no time; it",
             "stands behind the gates of the work before it, and is not counted.", "", *rows(governed), "",
             "## Followed", "", "The shim has its own function around the driver's.", "", *rows(followed), "",
             "## Memory", "", "Counted by kind, and held to a limit where there is one; the driver makes all of it.", "",
             *rows(memory), "",
             "## Code", "", "Followed where images are rewritten (`cuda-images.md`), or memory is managed; elsewhere straight to the driver, but for",
             "what loads code, which waits for room on the device (`memory.md`).", "",
             *rows(code), "",
             "## Left alone", "",
             "Straight to the driver. `*` stands for any further letters, in names that are not above.", "",
             "| entry points | why |", "|---|---|"]
    for why, names in LEFT_ALONE:
        lines.append(f"| {', '.join(names)} | {why} |")
    lines += ["", f"{len(governed)} governed, {len(followed)} followed; with their variants "
              f"{symbols(governed)} and {symbols(followed)}. {len(memory)} for memory, {len(code)} for code.", "",
              "## Not seen", "",
              "Work that reaches the device by another way is neither governed nor counted: kernels and graphs that",
              "kernels launch, functions from `cuGetExportTable`, by which NVIDIA's own tools talk to the driver, calls",
              "that a driver newer than this list has, programs that find the driver by other means than linking,",
              "`dlsym` and `cuGetProcAddress`, and other APIs on the same device. Calls of the tables that went past an",
              "XQueue, because a process has more than the 128 streams that its board holds, are counted; `fermata ps",
              "--calls` names them.", ""]
    return "\n".join(lines)
