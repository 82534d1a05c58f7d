"""Every bound of the catalogue holds, is not vacuous, and has its proof and its tests."""

import ast
import re

import numpy as np
import pytest
from places import ROOT

from nlattn import bounds
from nlattn.bounds import BOUNDS, check

PROOFS = ROOT / "proofs"
FALLING, RISING, SIGNED = np.asarray([2.0, 1.0, 0.0]), np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, 0.0, -1.0])
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


@pytest.mark.parametrize(
    ("id", "arguments", "name"),
    [
        ("range_finder_frobenius", (FALLING, 1, 1), "oversampling"),
        ("range_finder_frobenius", (RISING, 1, 2), "singular_values"),
        ("range_finder_spectral", (FALLING, 1, 1), "oversampling"),
        ("range_finder_spectral", (SIGNED, 1, 2), "singular_values"),
        ("range_finder_spectral", (FALLING, -1, 2), "rank"),
        ("range_finder_power", (FALLING, 1, 1, 1), "oversampling"),
        ("range_finder_power", (SIGNED, 1, 2, 1), "singular_values"),
        ("range_finder_power", (FALLING, 1, 2, -1), "power_iterations"),
        ("range_finder_frobenius_tail", (FALLING, 1, 3, 0.1), "oversampling"),
        ("range_finder_frobenius_tail", (FALLING, 1, 4, 0.0), "failure"),
        ("range_finder_spectral_tail", (FALLING, 1, 3, 0.1), "oversampling"),
        ("range_finder_spectral_tail", (FALLING, 1, 4, 1.0), "failure"),
        ("range_finder_spectral_tail", (RISING, 1, 4, 0.1), "singular_values"),
        ("nystrom_nuclear", (FALLING, 1, 2), "width"),
        ("nystrom_nuclear", (RISING, 1, 3), "eigenvalues"),
        ("single_pass_error", (FALLING, 2, 3), "rows"),
        ("single_pass_error", (FALLING, 0, 3), "columns"),
        ("single_pass_error", (SIGNED, 1, 3), "singular_values"),
        ("random_pivot_count", (FALLING, 1, 0.0), "epsilon"),
        ("random_pivot_count", (FALLING, 0, 1.0), "rank"),
        ("random_pivot_count", (FALLING, 2, 1.0), "eigenvalues"),
        ("random_pivot_count", (RISING, 1, 1.0), "eigenvalues"),
        ("sketched_leverage", (1.0,), "distortion"),
        ("sketched_leverage", (-0.1,), "distortion"),
        ("leverage_sampling", (0, 9, 0.1), "rank"),
        ("leverage_sampling", (2, 0, 0.1), "rows"),
        ("leverage_sampling", (2, 9, 0.0), "failure"),
        ("leverage_sampling", (2, 9, 0.1, 0.0), "quality"),
        ("leverage_sampling", (2, 9, 0.1, 1.1), "quality"),
        ("trace_variance", (np.eye(2), 3, "foo"), "test"),
        ("trace_variance", (np.eye(2), 0), "products"),
        ("spectral_norm_limit", (np.eye(2), 0.0), "failure"),
        ("frobenius_norm_limit", (np.eye(2), 1.0), "failure"),
        ("normaliser_perturbation", (1.0, 1.0), "error"),
        ("normaliser_perturbation", (-0.1, 1.0), "error"),
        ("entrywise_output", (1.0, np.eye(2)), "error"),
        ("entrywise_output", (np.asarray([0.5, -0.1]), np.eye(2)), "error"),
    ],
)
def test_outside_the_hypotheses(id, arguments, name):
    with pytest.raises(ValueError, match=rf"\A{name} must "):
        BOUNDS[id].function(*arguments)


def test_no_proof_without_a_bound():
    assert {file.stem for file in PROOFS.glob("*.md")} == {*BOUNDS, "README"}


def test_public_names():
    assert set(bounds.__all__) == {*BOUNDS, "BOUNDS", "Bound", "Outcome", "check"}
    assert all(getattr(bounds, id) is record.function for id, record in BOUNDS.items())


def index():
    """The table in proofs/README.md."""
    lines = ["| id | statement | kind | source |", "|---|---|---|---|"]
    for id, record in sorted(BOUNDS.items()):
        statement, source = (text.replace("|", r"\|") for text in (record.statement, record.source))
        lines.append(f"| [{id}]({id}.md) | {statement} | {record.kind} | {source} |")
    return "\n".join(lines)


def test_index():
    assert index() in (PROOFS / "README.md").read_text(encoding="utf-8"), f"put this into proofs/README.md:\n{index()}"
