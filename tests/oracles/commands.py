"""Runs the command line: in this process, or in one of its own."""

import os
import subprocess
import sys

from typer.testing import CliRunner

from nlattn.cli.app import app


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
