# SPDX-License-Identifier: Apache-2.0
"""VPI, for script/coverage."""
import re

# Calls that are given a stream, an event or a context, and have no function of ours.
LEFT_ALONE = [
    ("functions of the program on its own thread: they only order, and take no time of a device; what they wait for is the program's",
     "vpiSubmitHostFunction vpiSubmitHostFunctionEx"),
    ("only orders: it stands in the stream behind the commands that were let in before it", "vpiStreamWaitEvent vpiEventRecord"),
    ("has the library begin what was submitted, which was let in when it was", "vpiStreamFlush"),
    ("questions: nothing is put onto the stream", "vpiStreamGetFlags vpiStreamGetThreadHandle vpiEventQuery vpiEventElapsedTimeMillis vpiEventGetFlags"),
    ("events of the program: nothing of ours is behind them", "vpiEventCreate vpiEventDestroy"),
    ("contexts: nothing runs", "vpiContextCreate* vpiContextGetCurrent vpiContextSetCurrent vpiContextPush vpiContextPop vpiContextGet* vpiContextSet*"),
]
LEFT_ALONE = [(why, names.split()) for why, names in LEFT_ALONE]

RESULT, PREFIX = "(?:VPIStatus|void)", "vpi"
HEADERS = ("vpi/VPI.h", "vpi/CUDAInterop.h", "vpi/algo/ConvertImageFormat.h", "vpi/algo/BoxFilter.h")
DEFINES = ()
ELSEWHERE = ("cuda.h", "cuda_runtime.h")
# The table has whole numbers for enumerations, and const void * for structs of parameters.
TYPES = """
typedef int VPIEnum;
typedef struct CUstream_st *VPICUDAStream;
typedef const float (*VPITransformArg)[3], (*VPIIntrinsicArg)[3];
#define WHOLE(t) _Generic(*(__typeof__(t) *)0, int: 1, unsigned: 1, default: 0)
#define SAME(a, b, what) \\
    _Static_assert(__builtin_types_compatible_p(a, b) || (WHOLE(a) && WHOLE(b)) || __builtin_types_compatible_p(a, const void *), what);
"""

GOVERNED = {"work": ""}


def concerns(_, parameters):
    return re.search(r"\bVPI(Stream|Event|Context)\b", parameters)


TITLE, LIBRARY = "VPI", "library"
ABOVE = """The shim has run on a library of our own
(`tests/fakes/vpi`), on no hardware. How it works: `vpi.md`.

*since*: of the releases 1.1, 1.2, 2.1, 2.2, 3.2, 4.0 and 4.1 the first that has the function by its documentation. Parameters
are those that the documentation has since release 2."""
GOVERNED_ARE = "Commands of an XQueue: counted, held back while the program may not run, in the program's order."
LEFT_ARE = ", of the calls that are given a stream, an event or a context. `*` stands for any further letters."
BELOW = """{governed} governed, {followed} followed.

Every function called `vpiSubmit...` that we found in the documentation of releases up to 4.1 is in one of these lists; the ends of its lists of names were not to be had. No header of VPI's has been compared with the table.

## Not seen

Neither governed nor counted: functions of releases to come; what `dlvsym` gives; what the library itself puts onto CUDA
streams, which CUDA's shim sees if the program has that, too; and other APIs on the same engines. Calls of the table that
went past an XQueue, because their stream was not made by a call of the table, or a process has more than the 128 streams
that its board holds, are counted; `fermata ps --calls` names them."""
