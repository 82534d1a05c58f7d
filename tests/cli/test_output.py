"""Where `nlattn compare` writes: streams, table and picture."""

import json
import math

import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from commands import ROW_KEYS, invoke, python

import nlattn
from nlattn.cli.measurement.rows import Row
from nlattn.cli.output.verdicts import Verdict, by_time, telling, verdict


@pytest.mark.parametrize(
    "methods", [["nystrom", "streaming"], pytest.param(list(nlattn.METHODS), marks=pytest.mark.slow)]
)
def test_samples_with_everything(tmp_path, methods):
    """The command as a newcomer runs it: one document for two tables, alone on stdout."""
    plot = tmp_path / "out.png"
    arguments = ["--json", "-", "--plot", plot] + (["--methods", ",".join(methods)] if len(methods) < 4 else [])
    result = python("-m", "nlattn", "compare", *arguments, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    samples = found["input"]["samples"]
    assert [each["sample"] for each in samples] == ["minilm", "smollm2"]
    assert [each["causal"] for each in samples] == [False, True]
    assert all(set(row) == {"sample", *ROW_KEYS} for row in found["rows"])
    for name in ("minilm", "smollm2"):
        rows = [row for row in found["rows"] if row["sample"] == name]
        assert {row["method"] for row in rows} == {"exact", *methods}
        assert rows[0]["error"] < 1e-5
        useful = [row for row in rows[1:] if row["status"] == "ok" and row["error"] < row["baseline"]]
        assert useful
        assert all(row["error"] <= row["upper"] for row in useful)
    assert "\x1b" not in result.stderr
    assert "How to read this" in result.stderr
    assert max(map(len, result.stderr.splitlines())) <= 80
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size > 10_000


def test_table_goes_to_stdout_and_holds_every_row(model):
    command = ("-m", "nlattn", "compare", model, "--methods", "nystrom,streaming")
    result = python(*command, "--all", COLUMNS="120")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    title, second = result.stdout.splitlines()[:2]
    assert title.endswith("layer 9, 4 query and 2 key heads, L = S = 80, E = Ev = 8, not causal, scale 0.3, float32")
    assert second.startswith("Error of the uniform baseline: 0.")
    for words in ("landmarks 16", "landmarks 64", "window 64", "<= upper", "95 % rows", "speed", "estimates"):
        assert words in result.stdout
    few = python(*command, COLUMNS="120").stdout
    assert "--all shows them" in few
    assert len(few.splitlines()) < len(result.stdout.splitlines())


def test_table_is_sorted_by_time_and_says_what_is_best():
    def row(method, seconds, error, speedup):
        return Row(method=method, budget={}, seconds=seconds, error=error, baseline=0.5, speedup=speedup)

    assert [
        (r.method, r.error)
        for r in telling([row("exact", 1, 1e-7, 1), *(row("loki", 2 + e, e, 0.5) for e in (0.2, 0.1))])
    ] == [
        ("exact", 1e-7),
        ("loki", 0.1),
    ]
    rows = [
        row("exact", 1.0, 1e-7, 1.0),
        row("a", 0.2, 0.3, 5.0),
        row("b", 0.3, 0.4, 3.3),
        row("c", 0.4, 0.1, 2.5),
        row("d", 2.0, 0.01, 0.5),
        row("e", 0.1, 0.6, 10.0),
        row("f", 0.1, math.nan, 10.0),
        row("g", 0.99, 1.1e-7, 1.01),
        Row(method="h", budget={}, status="refused"),
    ]
    assert [each.method for each in by_time(rows)] == ["e", "f", "a", "b", "c", "g", "exact", "d"]
    assert {each.method: verdict(each, rows) for each in by_time(rows)} == {
        "exact": Verdict.EXACT,
        "a": Verdict.BEST,
        "b": Verdict.BEATEN,
        "c": Verdict.BEST,
        "d": Verdict.SLOWER,
        "e": Verdict.NO_USE,
        "f": Verdict.NO_USE,
        "g": Verdict.EXACT,
    }


def test_plot_of_nothing_but_refusals(model):
    plot = model.parent / "out.png"
    result = invoke("compare", model, "--causal", "--methods", "nystrom", "--plot", plot)
    assert result.exit_code == 0, result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
