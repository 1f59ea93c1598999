# SPDX-License-Identifier: Apache-2.0
"""What a shim costs can be less than two runs of a program differ by. So here the same program, in the same memory, calls
the driver through the shim and past it by turns: the libraries between the two keep the entry points that they were given
in tables of their own, and these are looked for and overwritten. For benchmarks, and from the thread that launches, while
the device has nothing to do."""
import ctypes
import re
import struct

SHIM, DRIVER = r"/libfermata-cuda\.so$", r"/libcuda\.so\.[0-9.]+$"
FUNCTION, INDIRECT = 2, 10  # kinds of symbols


def mappings():
    for line in open("/proc/self/maps", encoding="utf-8"):
        where, rights, offset, _, _, *path = line.split(None, 5)
        begin, end = (int(x, 16) for x in where.split("-"))
        yield begin, end, rights, int(offset, 16), path[0].strip() if path else ""


def functions(path):
    """What an ELF library exports: where, from its beginning."""
    with open(path, "rb") as f:
        image = f.read()
    at, = struct.unpack_from("<Q", image, 0x28)
    size, n = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, at + i * size) for i in range(n)]
    symbols = next(s for s in sections if s[1] == 11)  # SHT_DYNSYM
    names = sections[symbols[6]][4]
    found = {}
    for entry in range(symbols[4], symbols[4] + symbols[5], 24):
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, entry)
        if section and info & 15 in (FUNCTION, INDIRECT):
            name += names
            found.setdefault(image[name:image.index(b"\0", name)].decode(), value)
    return found


def library(pattern):
    """What the loaded library of that name exports: where."""
    for begin, _, _, offset, path in mappings():
        if re.search(pattern, path):
            return {name: begin - offset + at for name, at in functions(path).items()}
    return {}


def tables(shim):
    """Writable memory of the libraries that are loaded, but the shim's."""
    library_, end_ = "", 0
    for begin, end, rights, _, path in mappings():
        library_ = path or (library_ if begin == end_ else "")  # what follows without a name is its .bss
        end_ = end
        if rights.startswith("rw-p") and library_.startswith("/") and not re.search(shim, library_):
            yield begin, end - begin


class Shim:
    def __init__(self, shim=SHIM, driver=DRIVER):
        ours = library(shim)
        theirs = library(driver) if ours else {}
        by = {at: theirs[name] for name, at in ours.items() if name.startswith("cu") and name in theirs}
        self.words = []  # with what there is in them, and what the driver has
        high = {struct.pack("<Q", at)[3:] for at in by}  # more of them are never far apart
        for begin, size in tables(shim) if high else ():
            memory = (ctypes.c_char * size).from_address(begin)
            for match in re.finditer(b"|".join(map(re.escape, high)), memory):
                at = match.start() - 3
                word = ctypes.c_uint64.from_address(begin + at) if at >= 0 and at % 8 == 0 else None
                if word is not None and word.value in by:
                    self.words.append((word, word.value, by[word.value]))

    def through(self, yes):
        for word, ours, theirs in self.words:
            if word.value in (ours, theirs):
                word.value = ours if yes else theirs
