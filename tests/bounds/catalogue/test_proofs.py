"""Every bound has a proof, which names its tests."""

import ast
import functools
import re

import pytest
from places import ROOT

from nlattn.bounds import BOUNDS
from nlattn.bounds.catalogue.proofs import proof_file

PROOFS = ROOT / "proofs"
SECTIONS = ["Hypotheses", "Statement", "Proof", "Source", "Checked by"]


@functools.cache
def functions(file):
    """The source of each function of a test file."""
    source = (ROOT / file).read_text(encoding="utf-8")
    lines = source.splitlines()
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes}


@pytest.mark.parametrize("id", BOUNDS)
def test_proof(id):
    """All sections are there, and the tests that it names exist and mention the bound."""
    text = (PROOFS / f"{id}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {id}\n")
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == SECTIONS
    sections = re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)
    named = re.findall(r"^\* (tests/\S+\.py)::(\w+)$", sections[-1], flags=re.MULTILINE)
    assert named
    for file, test in named:
        assert re.search(rf"\b{id}\b", functions(file)[test]), f"{test} does not mention {id}"


def test_no_proof_without_a_bound():
    assert {file.stem for file in PROOFS.glob("*.md")} == {*BOUNDS, "README"}


def test_proofs_are_found():
    """In a clone; test_packaging looks for them in the wheel."""
    assert {proof_file(id) for id in BOUNDS} <= set(PROOFS.glob("*.md"))
    with pytest.raises(ValueError, match=r"\Aid must be one of "):
        proof_file("README")
