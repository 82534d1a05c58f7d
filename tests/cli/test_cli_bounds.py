"""The command `nlattn bounds`: what it prints and writes, its exit code, the list and the proofs."""

import dataclasses
import json
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")

from commands import invoke, one_sentence, python
from places import ROOT

import nlattn


def test_bounds_prints_and_writes(tmp_path):
    target = tmp_path / "bounds.json"
    result = invoke("bounds", "--id", "dropped_mass,range_finder_frobenius,leverage_sampling", "--json", target)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "dropped_mass (always): holds" in text
    assert nlattn.bounds.BOUNDS["range_finder_frobenius"].statement in text
    assert "of 200 trials above it (0 allowed)" in text
    assert "from 100 trials (5.1 allowed)" in text
    assert "3 bounds checked, all hold." in text
    document = json.loads(target.read_text())
    assert document["schema"] == "nlattn.bounds/1"
    assert document["environment"]["nlattn"] == nlattn.__version__
    assert [row["id"] for row in document["rows"]] == ["dropped_mass", "range_finder_frobenius", "leverage_sampling"]
    row = document["rows"][2]
    assert row["kind"] == "probability"
    assert row["failure"] == 0.05
    assert row["holds"] is True
    assert row["trials"] == 200
    assert row["violations"] <= row["allowed"] == 27
    assert {"statement", "hypotheses", "source", "bound", "median", "worst", "worst_ratio", "ratio"} <= set(row)


def test_bounds_json_to_stdout():
    done = python("-m", "nlattn", "bounds", "--id", "dropped_mass", "--trials", 7, "--seed", 3, "--json", "-")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["rows"][0]["trials"] == 7
    assert document["environment"]["seed"] == 3
    assert "1 bound checked, all hold." in done.stderr


def test_bounds_that_fail(monkeypatch):
    """A wrong constant is seen, and the exit code says so."""
    record = nlattn.bounds.BOUNDS["gaussian_variance"]

    def wrong(rng):
        measured, limit = record.run(rng)
        return measured, 0.7 * limit

    monkeypatch.setitem(nlattn.bounds.BOUNDS, "gaussian_variance", dataclasses.replace(record, run=wrong))
    result = invoke("bounds", "--id", "gaussian_variance")
    assert result.exit_code == 1
    assert "gaussian_variance (moment): FAILS" in result.output
    assert "1 fail: gaussian_variance" in " ".join(result.output.split())


def test_bounds_listed(monkeypatch):
    """The list has statement, hypotheses, source and proof of every bound, and measures nothing."""
    for id, record in nlattn.bounds.BOUNDS.items():
        monkeypatch.setitem(nlattn.bounds.BOUNDS, id, dataclasses.replace(record, run=None))
    result = invoke("bounds", "--list")
    assert result.exit_code == 0, result.output
    text = "".join(result.output.split())
    for id, record in nlattn.bounds.BOUNDS.items():
        source = f"source: {record.source} proof: {ROOT / 'proofs' / id}.md"
        listed = [f"{id} ({record.kind}) {record.statement}", *(f"* {each}" for each in record.hypotheses), source]
        assert "".join("".join(listed).split()) in text
    assert f"{len(nlattn.bounds.BOUNDS)}boundslisted." in text


def test_bounds_listed_by_name(tmp_path):
    target = tmp_path / "bounds.json"
    result = invoke("bounds", "--list", "--id", "dropped_mass,trace_variance", "--json", target)
    assert result.exit_code == 0, result.output
    assert "2 bounds listed." in result.output
    document = json.loads(target.read_text())
    assert document["schema"] == "nlattn.bounds.list/1"
    assert [row["id"] for row in document["rows"]] == ["dropped_mass", "trace_variance"]
    row = document["rows"][0]
    assert row["hypotheses"] == list(nlattn.bounds.BOUNDS["dropped_mass"].hypotheses)
    assert Path(row["proof"]).read_text(encoding="utf-8").startswith("# dropped_mass\n")
    assert {"statement", "kind", "source", "failure"} <= set(row)


def test_bounds_listed_as_json():
    result = invoke("bounds", "--list", "--id", "dropped_mass", "--json", "-")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["rows"][0]["kind"] == "always"
    assert "1 bound listed." in result.stderr


def test_proofs_printed():
    result = invoke("bounds", "--proof", "dropped_mass,trace_variance")
    assert result.exit_code == 0
    texts = [(ROOT / "proofs" / f"{id}.md").read_text(encoding="utf-8") for id in ("dropped_mass", "trace_variance")]
    assert result.output == "\n".join([*texts, ""])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--id", "dropped"], "--id must name bounds such as dropped_mass; got 'dropped'."),
        (["--proof", "dropped"], "--proof must name bounds such as dropped_mass; got 'dropped'."),
        (["--id", ","], "--id must name at least one bound among"),
        (["--json", "nowhere/x.json"], "--json cannot be written: there is no folder nowhere."),
    ],
)
def test_bounds_refused(arguments, sentence):
    assert sentence in one_sentence(invoke("bounds", *arguments))


def test_bounds_needs_two_trials():
    assert invoke("bounds", "--trials", 1).exit_code == 2


def test_bounds_with_too_few_trials():
    """Two trials of a mean allow anything, and are not said to hold."""
    result = invoke("bounds", "--id", "dropped_mass,trace_variance", "--trials", 2)
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert "dropped_mass (always): holds" in text
    assert "trace_variance (moment): too few trials to tell" in text
    assert "2 bounds checked, none fails, 1 with too few trials to tell." in text
