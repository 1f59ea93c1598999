# SPDX-License-Identifier: Apache-2.0
"""Builds the package for pip (PEP 517): a wheel of pure Python is a zip file with three files about itself."""
import base64
import hashlib
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("pyproject.toml", "build_wheel.py")
TAG = "py3-none-any"


def _read(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return f.read()


def _project(key):
    """A member of pyproject.toml. There is no reader of TOML in Python 3.9 and 3.10."""
    found = re.search(rf'^{key} = "([^"]*)"$', _read("pyproject.toml").decode(), re.M)
    if not found:
        raise ValueError(f"pyproject.toml has no {key}")
    return found.group(1)


def _package():
    names = sorted(n for n in os.listdir(os.path.join(HERE, "fermata")) if n.endswith((".py", ".typed")))
    return {f"fermata/{n}": _read(os.path.join("fermata", n)) for n in names}


def _metadata():
    text = f"Metadata-Version: 2.1\nName: {_project('name')}\nVersion: {_project('version')}\n"
    text += f"Summary: {_project('description')}\nLicense: {_project('license')}\nRequires-Python: {_project('requires-python')}\n"
    return text.encode()


def _record(files, info):
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    return "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    stem = f"{_project('name')}-{_project('version')}"
    info = f"{stem}.dist-info"
    files = _package()
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: fermata\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
    files[f"{info}/RECORD"] = _record(files, info)
    name = f"{stem}-{TAG}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files.items():
            z.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory, config_settings=None):
    stem = f"{_project('name')}-{_project('version')}"
    name = f"{stem}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as t:
        for path in (*SOURCES, *_package()):
            t.add(os.path.join(HERE, path), f"{stem}/{path}")
    return name
