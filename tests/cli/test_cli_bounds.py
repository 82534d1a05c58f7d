"""The command `nlattn bounds`: what it prints and writes, and its exit code."""

import dataclasses
import json

import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")

from commands import invoke, one_sentence, python

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
    record = nlattn.bounds.BOUNDS["trace_variance"]
    monkeypatch.setitem(
        nlattn.bounds.BOUNDS,
        "trace_variance",
        dataclasses.replace(record, run=lambda rng: (record.run(rng)[0], 0.7 * record.run(rng)[1])),
    )
    result = invoke("bounds", "--id", "trace_variance")
    assert result.exit_code == 1
    assert "trace_variance (moment): FAILS" in result.output
    assert "1 fail: trace_variance" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--id", "dropped"], "--id must name bounds such as dropped_mass; got 'dropped'."),
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
