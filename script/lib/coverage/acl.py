# SPDX-License-Identifier: Apache-2.0
"""AscendCL, for script/coverage."""
import pathlib
import re

PAGE = "acl"

# Calls that are given a stream, or make the device work, and have no function of ours.
LEFT_ALONE = [
    ("questions and settings: nothing is put onto the stream",
     "aclrtStreamGetId aclrtStreamGetPriority aclrtStreamGetFlags aclrtCtxGetCurrentDefaultStream aclrtSetStreamFailureMode "
     "aclrtSetStreamOverflowSwitch aclrtGetStreamOverflowSwitch aclrtSetStreamAttribute aclrtGetStreamAttribute "
     "aclrtGetStreamResLimit aclrtSetStreamResLimit aclrtResetStreamResLimit aclrtUseStreamResInCurrentThread "
     "aclrtUnuseStreamResInCurrentThread aclmdlRICaptureGetInfo aclmdlRIGetStreams aclmdlRIGetTasksByStream"),
    ("of the thread that calls the stream's functions: nothing runs",
     "aclrtSubscribeReport aclrtUnSubscribeReport aclrtSubscribeHostFunc aclrtUnSubscribeHostFunc"),
    ("composes or changes a model, or is for streams of one: what is there runs, and counts, when the model is executed",
     "aclmdlRIBindStream aclmdlRIUnbindStream aclmdlRIEndTask aclmdlRIAddCondTask aclmdlRICaptureTaskGrpBegin "
     "aclmdlRICaptureTaskGrpEnd aclmdlRICaptureTaskUpdateBegin aclmdlRICaptureTaskUpdateEnd aclrtActiveStream "
     "aclrtSwitchStream aclrtSetLabel aclrtSwitchLabelByIndex aclrtPersistentTaskClean"),
    ("memory of a stream's own: nothing is put onto it", "aclrtAllocatorRegister aclrtAllocatorGetByStream aclrtAllocatorUnregister"),
    ("stops what runs, and keeps the rest", "aclrtStreamStop"),
]
LEFT_ALONE = [(why, names.split()) for why, names in LEFT_ALONE]

RESULT, PREFIX = "aclError", "acl[a-z]*"
HEADERS = ("acl/acl.h", "acl/acl_rt.h", "acl/acl_rt_memory_soma.h", "acl/acl_mdl.h", "acl/acl_op.h", "acl/acl_op_compiler.h",
           "acl/ops/acl_cblas.h")
DEFINES = ()
ELSEWHERE = ()

# What the headers have by other names than src/api/acl/core/types.h.
TYPES = """
#define fm_acl_dim3 dim3
#define fm_acl_location aclrtMemManagedLocation
typedef aclrtCallback fm_acl_fn;
/* The table has whole numbers for enumerations, and struct names where the headers may have others. */
#define WHOLE(t) _Generic(*(__typeof__(t) *)0, int: 1, unsigned: 1, int *: 2, unsigned *: 2, default: 0)
#define SAME(a, b, what) _Static_assert(__builtin_types_compatible_p(a, b) || (WHOLE(a) && WHOLE(a) == WHOLE(b)), what);
"""

GOVERNED = {"kernel": "", "work": "", "graph": "one command", "order": "only orders"}


def concerns(_, parameters):
    return re.search(r"\baclrtStream\b(?! *\*)", parameters)


def versions(directory):
    """The functions of these headers have no versions."""
    text = "".join(p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(directory, "acl").rglob("*.h")))
    return {name: range(0, 1) for name in re.findall(r"\b(acl[a-z]*[A-Z]\w*)\s*\(", text)}


def apart(call):
    """An operator, of which there are too many for a row."""
    return call.symbol.startswith("aclnn")


def rows(calls):
    lines = ["| entry point | notes |", "|---|---|"]
    for c in calls:
        note = ", ".join(filter(None, [GOVERNED.get(c.kind, ""), c.note]))
        if "FM_ACL_NO_STREAM" in c.facts:
            note = "in no stream: of the thread, which waits for it"
        lines.append(f"| {c.symbol} | {note} |")
    return lines


TITLE, LIBRARY = "AscendCL", "library"
ABOVE = """The shim has run on a library of our own
(`tests/fakes/acl`), on no hardware. How it works: `acl.md`."""
GOVERNED_ARE = """Commands of an XQueue: counted, and held back. What *only orders* takes the device no time; it is passed on, and is not
counted."""
BESIDES = """And {apart} operators of libopapi (`aclnnAdd` and so on): the second call of each, which puts it onto a stream.
`src/api/acl/aclnn.def` has their names, and `script/aclnn-names` says where these are from."""
LEFT_ARE = ", of the calls that are given a stream."
BELOW = """{governed} governed, {apart} operators, {followed} followed.

## Not seen

Neither governed nor counted: what is put onto a stream below AscendCL, by functions of libruntime (`rt...`), as the
compiler's code for `kernel<<<...>>>` may do, and by libraries of collectives (HCCL); operators that are in no list,
such as a program's own; video and image functions (`hi_mpi`, `acldvpp`); what `dlvsym` gives; and other APIs on the
same device. Calls of the table that went past an XQueue, because a process has more than the 128 queues that its
board holds, are counted; `fermata ps --calls` names them."""
