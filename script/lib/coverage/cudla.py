# SPDX-License-Identifier: Apache-2.0
"""cuDLA, for script/coverage."""
import re

# Calls that are given a handle of a device, and have no function of ours.
LEFT_ALONE = [
    ("questions", "cudlaDeviceGetAttribute cudlaGetLastError"),
    ("loads and unloads code: nothing runs", "cudlaModuleLoadFromMemory cudlaModuleUnload cudlaModuleGetAttributes"),
    ("memory and semaphores: nothing runs",
     "cudlaMemRegister cudlaMemUnregister cudlaImportExternalMemory cudlaImportExternalSemaphore cudlaGetNvSciSyncAttributes"),
    ("versions and numbers of devices", "cudlaGetVersion cudlaDeviceGetCount"),
]
LEFT_ALONE = [(why, names.split()) for why, names in LEFT_ALONE]

RESULT, PREFIX = "cudlaStatus", "cudla"
HEADERS = ("cudla.h",)
DEFINES = ()
ELSEWHERE = ()
TYPES = """
#define SAME(a, b, what) _Static_assert(__builtin_types_compatible_p(a, b), what);
"""

GOVERNED = {"work": ""}


def concerns(_, parameters):
    return re.search(r"\bcudlaDevHandle\b", parameters)


TITLE, LIBRARY = "cuDLA", "library"
ABOVE = """The shim has run on a library of our own
(`tests/fakes/cudla`), on no hardware. How it works: `cudla.md`."""
LEFT_ARE = "."
BELOW = """{governed} governed, {followed} followed.

## Not seen

Neither governed nor counted: what `dlvsym` gives; DLA tasks that TensorRT submits by other libraries than this one; and
NvMediaDla. Tasks on a CUDA stream in a program without CUDA's shim are counted; `fermata ps --calls` names them."""
