"""Runs the command line: in this process, or in one of its own."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from nlattn.cli.app import app

#: The keys of a row in a document.
ROW_KEYS = {
    "method",
    "budget",
    "status",
    "reason",
    "error",
    "upper",
    "row95",
    "baseline",
    "seconds",
    "speedup",
    "extra_bytes",
    "heads",
}


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"COLUMNS": "80"} | environment,
    )


def one_sentence(result):
    """What a refused command says, on one line."""
    assert result.exit_code == 2
    said = result.output.strip()
    assert said.endswith(".")
    assert "\n" not in said
    assert "Traceback" not in said
    return said


def document(path, *arguments, out="out.json"):
    """What a comparison of a file writes as JSON."""
    target = path.parent / out
    result = invoke("compare", path, "--json", target, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(target.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in the document"))
