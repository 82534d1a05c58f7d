"""The build backend: setuptools, whose editable wheels are given a path file.

An editable install of setuptools finds the packages by an import hook, since `backends/` is installed as
`nlattn.backends`. Type checkers do not run import hooks; a path file that names the clone shows them `nlattn`.
"""

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

ROOT = Path(__file__).resolve().parents[1]


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the editable wheel and add the path file."""
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory) / name
    with zipfile.ZipFile(path) as wheel:
        files = {info.filename: wheel.read(info) for info in wheel.infolist()}
    record = next(file for file in files if file.endswith(".dist-info/RECORD"))
    content = f"{ROOT}\n".encode()
    files["nlattn_clone.pth"] = content
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(["nlattn_clone.pth", f"sha256={digest}", len(content)])
    files[record] = line.getvalue().encode() + files[record]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, data in files.items():
            wheel.writestr(file, data)
    return name
