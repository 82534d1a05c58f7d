"""The examples run, and so do those in the docstrings."""

import doctest
import importlib
import subprocess
import sys

import pytest
from places import ROOT

import nlattn
from nlattn.methods import registry

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in sorted((ROOT / "nlattn").rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_example(example):
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") > 4


@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module, monkeypatch):
    # What an example registers is forgotten: other tests go through all methods that there are.
    monkeypatch.setattr(registry, "_RECORDS", known := dict(registry._RECORDS))
    monkeypatch.setattr(nlattn, "METHODS", known)
    failed, tried = doctest.testmod(importlib.import_module(module), verbose=False)
    assert tried > 0
    assert failed == 0


def test_every_public_function_has_an_example():
    for name in nlattn.__all__:
        thing = getattr(nlattn, name)
        if callable(thing) and not isinstance(thing, type):
            assert ">>> " in (thing.__doc__ or ""), name
