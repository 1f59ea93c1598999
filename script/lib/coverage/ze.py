# SPDX-License-Identifier: Apache-2.0
"""Level Zero, for script/coverage."""
import pathlib
import re

PAGE = "level-zero"

# Calls that are given a queue, a list, a fence or an event, and have no function of ours.
LEFT_ALONE = [
    ("makes a list, or says that it is whole: nothing runs",
     "zeCommandListCreate zeCommandListClose zeCommandListCreateCloneExp"),
    ("questions: nothing is put there", "zeCommandQueueGet* zeCommandListGet* zeCommandListImmediateGet* zeCommandListIs*"),
    ("changes what a list does that is executed later", "zeCommandListUpdateMutableCommand*"),
    ("which list a graph comes from", "zeGraphGetPrimaryCommandListExt"),
    ("fences of the program: nothing of ours is behind them", "zeFenceCreate zeFenceDestroy zeFenceReset zeFenceQueryStatus"),
    ("events of the program; what the host signals may let a queue go on, and the agent learns of the end by itself",
     "zeEventCreate zeEventDestroy zeEventHostSignal zeEventHostReset zeEventQueryStatus zeEventQueryKernelTimestamp "
     "zeEventQueryTimestampsExp "
     "zeEventQueryKernelTimestampsExt zeEventGet* zeEventCounterBased*"),
]
LEFT_ALONE = [(why, names.split()) for why, names in LEFT_ALONE]

RESULT, PREFIX = "ze_result_t", "ze"
HEADERS = ("level_zero/ze_api.h",)
DEFINES = ()
ELSEWHERE = ()
TYPES = """
#define SAME(a, b, what) _Static_assert(__builtin_types_compatible_p(a, b), what);
"""

GOVERNED = {"kernel": "", "work": "", "graph": "the lists are one command", "order": "only orders"}


def concerns(_, parameters):
    return re.search(r"\bze_(command_queue|command_list|fence|event)_handle_t\b", parameters)


def versions(directory):
    """The headers do not say since when a function is there: in any version up to theirs."""
    text = pathlib.Path(directory, HEADERS[0]).read_text(encoding="utf-8")
    major, minor = re.search(r"ZE_API_VERSION_CURRENT = ZE_MAKE_VERSION\( *(\d+), *(\d+) *\)", text).groups()
    return {name: range(100, 100 * int(major) + int(minor) + 1) for name in re.findall(r"^(ze[A-Z]\w*)\($", text, re.M)}


TITLE, LIBRARY = "Level Zero", "loader"
ABOVE = """The shim has run on a driver of our own
(`tests/fakes/ze`) behind Debian's loader, on no hardware. How it works: `level-zero.md`.

*since*: the version of the specification that has this function."""
GOVERNED_ARE = """Commands of an XQueue: counted, gated, in the program's order. What is appended to a list that is not immediate goes
straight to the driver: it is governed when that list is executed. What *only orders* takes the device no time; it
stands behind the gates of the work before it, and is not counted."""
LEFT_ARE = ", of the calls that are given a queue, a list, a fence or an event."
BELOW = """{governed} governed, {followed} followed.

## Not seen

Neither governed nor counted: functions of a driver that are taken from its tables past the loader's functions, or
called by handles that are the driver's own, where several drivers are installed (`zelLoaderTranslateHandle`); what
`dlvsym` gives; and other APIs on the same device. Calls of the table that went past an XQueue, because a process has
more than the 128 queues that its board holds, are counted; `fermata ps --calls` names them."""
