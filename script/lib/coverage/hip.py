# SPDX-License-Identifier: Apache-2.0
"""HIP, for script/coverage."""

# Calls that are given a stream, use the default one, or make the device work, and have no function of ours.
LEFT_ALONE = [
    ("questions: nothing is put onto the stream",
     "hipStreamGetFlags* hipStreamGetPriority* hipStreamGetDevice hipGetStreamDeviceId hipStreamGetId "
     "hipStreamGetAttribute hipStreamIsCapturing* hipStreamGetCaptureInfo* hipExtStreamGetCUMask hipEventQuery"),
    ("waits for an event: the agent learns of the end by itself", "hipEventSynchronize"),
    ("of the next captured node, or of the thread: nothing runs",
     "hipStreamUpdateCaptureDependencies hipThreadExchangeStreamCaptureMode"),
    ("composes or changes a graph: what is in it runs, and counts, when it is launched",
     "hipGraphAdd* hipDrvGraphAdd* hipGraphExec*SetParams* hipDrvGraphExec*SetParams hipGraph*NodeSetParams* "
     "hipDrvGraph*NodeSetParams hipGraphExecUpdate hipGraphInstantiate*"),
    ("memory that is on no stream; some of it waits for the device",
     "hipMalloc hipMallocManaged hipMallocPitch hipMalloc3D* hipMallocArray hipExtMallocWithFlags hipFree hipFreeArray "
     "hipHost* hipMem*Pool* hipMemAdvise* hipMemMap hipMemUnmap hipMemSetAccess"),
    ("contexts beside a device's own, which HIP has deprecated", "hipCtxCreate hipCtxDestroy hipDevicePrimaryCtx*"),
    ("attributes of a stream: nothing is put onto it", "hipStreamSetAttribute hipStreamCopyAttributes"),
    ("devices, contexts, errors and versions",
     "hipInit hipDriverGetVersion hipRuntimeGetVersion hipSetValidDevices hipChooseDevice* hipSetDevice hipSetDeviceFlags "
     "hipGetDevice hipGetDeviceCount hipGetDeviceFlags hipGetDeviceProperties* hipDeviceGet* hipDeviceSet* "
     "hipDeviceTotalMem hipDeviceComputeCapability hipDeviceCanAccessPeer hipDeviceEnablePeerAccess "
     "hipDeviceDisablePeerAccess hipDeviceGraphMemTrim hipCtxGet* hipCtxSet* hipCtxPushCurrent hipCtxPopCurrent "
     "hipCtxEnablePeerAccess hipCtxDisablePeerAccess hipExtGetLinkTypeAndHopCount hipGetErrorName hipGetErrorString "
     "hipDrvGetErrorName hipDrvGetErrorString hipGetLastError hipExtGetLastError hipPeekAtLastError"),
    ("makes, ends or measures an event: nothing is put onto a stream",
     "hipEventCreate hipEventCreateWithFlags hipEventDestroy hipEventElapsedTime hipIpcGetEventHandle hipIpcOpenEventHandle"),
    ("makes, ends or reads a graph", "hipGraphCreate hipGraphDestroy hipGraphClone hipGraphExecDestroy hipGraphExecGetFlags "
     "hipGraphDestroyNode hipGraphRemoveDependencies hipGraphGet* hipGraphNode* hipGraph*NodeGet* "
     "hipGraph*NodeSetEvent hipGraphExecNodeSetParams hipGraphKernelNode*Attribute* "
     "hipGraphDebugDotPrint hipGraphRetainUserObject hipGraphReleaseUserObject hipUserObject* hipDrvGraph*NodeGetParams"),
    ("code and functions: loading may wait for the device",
     "hipModuleLoad* hipModuleUnload hipModuleGet* hipLibrary* hipLink* hipFunc* hipGetFuncBySymbol hipModuleOccupancy* "
     "hipOccupancy* hipKernelNameRef* hipGetSymbolAddress hipGetSymbolSize hipSetupArgument"),
    ("memory, what is known of it, and memory of other processes and APIs",
     "hipArray* hipMallocHost hipMallocMipmappedArray hipFreeHost hipFreeMipmappedArray hipMipmappedArray* hipGetMipmappedArrayLevel "
     "hipMemAlloc* hipMemAddress* hipMemCreate hipMemRelease hipMemRetainAllocationHandle hipMemExportToShareableHandle "
     "hipMemImportFromShareableHandle hipMemGet* hipMemPtrGetInfo hipMemRange* hipPointer* hipDrvPointerGetAttributes "
     "hipIpcGetMemHandle hipIpcOpenMemHandle hipIpcCloseMemHandle hipImportExternal* hipDestroyExternal* "
     "hipExternalMemoryGetMappedBuffer hipGraphicsGLRegister* hipGraphicsUnregisterResource hipGLGetDevices "
     "hipGraphicsResourceGetMappedPointer hipGraphicsSubResourceGetMappedArray"),
    ("textures and surfaces", "hipBindTexture* hipUnbindTexture hipTexObject* hipTexRef* hipCreateTextureObject "
     "hipDestroyTextureObject hipGetTexture* hipCreateChannelDesc hipGetChannelDesc"),
    ("tools and their callbacks", "hipProfiler* hipApiName hipGetCmdName* hipInitActivityCallback hipEnableActivityCallback "
     "hipRegister*Callback hipRemove*Callback hipRegisterTracerCallback"),
]
LEFT_ALONE = [(why, names.split()) for why, names in LEFT_ALONE]

RESULT, PREFIX = "hipError_t", "hip"
HEADERS = ("hip/hip_runtime_api.h",)
DEFINES = ("-D__HIP_PLATFORM_AMD__",)
ELSEWHERE = ()

# What the headers have by other names than src/api/hip/core/types.h.
TYPES = """
#define fm_hip_dim3 dim3
#define fm_hip_launch_config hipLaunchConfig_st
#define fm_hip_drv_launch_config HIP_LAUNCH_CONFIG_st
#define fm_hip_launch_params hipLaunchParams_t
#define fm_hip_function_params hipFunctionLaunchParams_t
#define fm_hip_instantiate hipGraphInstantiateParams
#define fm_hip_pitched hipPitchedPtr
#define fm_hip_extent hipExtent
#define fm_hip_location hipMemLocation
typedef hipHostFn_t fm_hip_host_fn;
typedef hipStreamCallback_t fm_hip_callback;
/* The table has whole numbers for enumerations, and void * for addresses on the device. */
#define WHOLE(t) _Generic(*(__typeof__(t) *)0, int: 1, unsigned: 1, int *: 2, unsigned *: 2, default: 0)
#define POINTS(t) _Generic(*(__typeof__(t) *)0, void *: 1, const void *: 1, default: 0)
#define SAME(a, b, what) \\
    _Static_assert(__builtin_types_compatible_p(a, b) || (WHOLE(a) && WHOLE(a) == WHOLE(b)) || \\
        (POINTS(a) && POINTS(b)), what);
"""

GOVERNED = {"kernel": "", "work": "", "graph": "", "order": "only orders"}


def rows(calls):
    lines = ["| entry point | per thread | since | notes |", "|---|---|---|---|"]
    for c in calls:
        clone = c.clone[len(c.symbol):] if c.clone else ""
        note = "only orders" if c.kind == "order" else c.note
        if c.kind == "work" and c.facts.rsplit(",", 1)[-1].strip(" )") != "0":
            note = "tells that the stream is idle" + ("" if c.facts.rsplit(",", 1)[-1].strip(" )") == "1" else
                                                      ", if it copies to the host")
        lines.append(f"| {c.symbol} | {clone} | {c.since // 100}.{c.since % 100} | {note} |")
    return lines


TITLE, LIBRARY = "HIP", "runtime"
ABOVE = """The shim has run on a runtime of our
own (`tests/fakes/hip`), on no hardware.

*per thread*: the suffix of the variant in which the NULL stream is the thread's own, covered as well.
*since*: the version of HIP that has this function."""
GOVERNED_ARE = """Commands of an XQueue: counted, gated, in the runtime's order. What *only orders* takes the device no time; it
stands behind the gates of the work before it, and is not counted."""
LEFT_ARE = ". `*` stands for any further letters, in names that are not above."
BELOW = """{governed} governed, {followed} followed; with their variants {governed_symbols} and {followed_symbols}.

Each function that is exported by the libamdhip64 of ROCm 5.2 (Debian) or listed for ROCm 7.2 is in one of these
tables (`script/coverage hip --library FILE` looks).

## Graphs

A graph is one command: its launch waits at the gates of its stream, and once it has begun it runs to its end.
CUDA's shim captures gates into graphs; HIP's runtime refuses waits for values while a stream is captured, so here
the wait for a graph that runs is as long as the graph. Graphs longer than a segment are counted as undivided
(`fermata ps --calls`). Launches on a captured stream become a part of the graph, and are neither counted nor gated.

## Left out until there is hardware

- Host functions as gates: the runtime calls those of all streams of a process on one thread, so that one which
  waits would hold up every other, and the events by which the shim hears of ends.
- Level 3 by the kernel driver's UPDATE_QUEUE with a share of 0 %: with the firmware's scheduler each change loads the
  list of all processes' queues again, which disturbs the program for which others are stopped.
- Gates inside graphs by nodes of batched memory operations (HIP 6.4).

## Not seen

Neither governed nor counted: what `dlvsym` gives, which asks for a version of a symbol; names of C++ for some
launches (`hipHccModuleLaunchKernel`, `hipExtModuleLaunchKernel`, `hip_impl::hipLaunchKernelGGLImpl`); what libraries enqueue below HIP (HSA queues of their own); tables of the
runtime's functions that tools of ROCm are given; and other APIs on the same device. Calls of the table that
went past an XQueue, because a process has more than the 128 streams that its board holds, are counted;
`fermata ps --calls` names them."""
