"""Every bound of the catalogue holds, is not vacuous, and has its proof and its tests."""

import ast
import re
from pathlib import Path

import pytest

from nlattn import bounds
from nlattn.bounds import BOUNDS, check

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
SECTIONS = ["Hypotheses", "Statement", "Proof", "Source", "Checked by"]


@pytest.mark.parametrize("id", BOUNDS)
def test_holds(id):
    outcome = check(id)
    low, high = BOUNDS[id].band
    assert outcome.holds, outcome
    assert low <= outcome.ratio <= high, outcome


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
        source = (ROOT / file).read_text(encoding="utf-8")
        body = next(node for node in ast.walk(ast.parse(source)) if getattr(node, "name", None) == test)
        assert re.search(rf"\b{id}\b", ast.get_source_segment(source, body)), f"{test} does not mention {id}"


def test_no_proof_without_a_bound():
    assert {file.stem for file in PROOFS.glob("*.md")} == {*BOUNDS, "README"}


def test_public_names():
    assert set(bounds.__all__) == {*BOUNDS, "BOUNDS", "Bound", "Outcome", "check"}
    assert all(getattr(bounds, id) is record.function for id, record in BOUNDS.items())


def index():
    """The table in proofs/README.md."""
    lines = ["| id | statement | kind | source |", "|---|---|---|---|"]
    for id, record in sorted(BOUNDS.items()):
        statement = record.statement.replace("|", r"\|")
        lines.append(f"| [{id}]({id}.md) | {statement} | {record.kind} | {record.source} |")
    return "\n".join(lines)


def test_index():
    assert index() in (PROOFS / "README.md").read_text(encoding="utf-8"), f"put this into proofs/README.md:\n{index()}"
