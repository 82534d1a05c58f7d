"""What `nlattn compare` measures: its rows, as a document."""

import json

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from commands import ROW_KEYS, document, invoke
from small_arrays import arrays

import nlattn
from nlattn.methods.lowrank.nystrom import Nystrom
from nlattn.methods.sparse.streaming import Streaming

FIGURES = ("error", "upper", "row95", "baseline")


def test_document_has_the_schema_and_its_types(model):
    found = document(model)
    assert set(found) == {"schema", "input", "environment", "rows"}
    assert found["schema"] == "nlattn.compare/1"
    expected = {
        "file": str(model),
        "layer": 9,
        "heads": [10, 11, 12, 13],
        "L": 80,
        "S": 80,
        "E": 8,
        "Ev": 8,
        "causal": False,
        "scale": pytest.approx(0.3),
        "dtype": "float32",
        "seed": 0,
    }
    assert found["input"] == expected
    names = {"nlattn", "python", "numpy", "numba", "platform", "cpus", "threads", "backend", "date"}
    assert set(found["environment"]) == names
    assert found["rows"][0]["method"] == "exact"
    assert {row["method"] for row in found["rows"]} == set(nlattn.METHODS)
    for row in found["rows"]:
        assert set(row) == ROW_KEYS
        assert row["status"] in ("ok", "refused", "failed")
        if row["status"] != "ok":
            continue
        assert row["reason"] is None
        assert all(isinstance(row[name], float) for name in (*FIGURES, "seconds", "speedup"))
        assert isinstance(row["extra_bytes"], int)
        assert row["seconds"] > 0
        assert [head["head"] for head in row["heads"]] == [10, 11, 12, 13]
        assert all(set(head) == {"head", *FIGURES} for head in row["heads"])


def test_rows_are_the_ladders_below_s_and_agree_with_certify(model):
    rows = document(model)["rows"]
    budgets = [(row["method"], row["budget"]) for row in rows if row["status"] == "ok"]
    expected = []
    for record in nlattn.METHODS.values():
        for first, *others in [record.budgets] if record.budgets else []:
            ladder = [amount for amount in first.ladder if first.unit != "keys" or amount < 80]
            rest = {budget.name: record.method().budgets[budget.name] for budget in others}
            expected += [(record.name, {first.name: amount} | rest) for amount in ladder]
    assert budgets == [("exact", {}), *expected]
    with np.load(model) as file:
        q, k, v = (file[part][1].astype(np.float32) for part in "qkv")
    options = {"scale": float(np.float32(0.3))}
    (row,) = (row for row in rows if row["method"] == "nystrom" and row["budget"] == {"landmarks": 16})
    found = nlattn.certify(nlattn.nystrom_attention(q, k, v, 16, **options), q, k, v, **options, rng=0)
    assert row["error"] == pytest.approx(found.pooled.error)
    assert row["upper"] == pytest.approx(found.pooled.upper)
    assert row["row95"] == pytest.approx(found.pooled.quantile(0.95) / found.pooled.norm)
    assert row["baseline"] == pytest.approx(found.pooled.baseline)
    assert [head["error"] for head in row["heads"]] == pytest.approx(found.error)


def test_layer_heads_methods_and_budgets_choose(model):
    found = document(model, "--layer", 5, "--heads", "10-12", "--methods", "nystrom", "--budgets", "4,200", "--seed", 3)
    assert found["input"]["layer"] == 5
    assert found["input"]["heads"] == [10, 11, 12]
    assert found["input"]["seed"] == 3
    rows = found["rows"]
    assert [(row["method"], row["budget"]) for row in rows] == [
        ("exact", {}),
        ("nystrom", {"landmarks": 4}),
        ("nystrom", {"landmarks": 200}),
    ]
    # Heads 10 and 11 share one of keys, 12 has another: their exact attention is as before.
    with np.load(model) as file:
        q, k, v = (file[part][0].astype(np.float32) for part in "qkv")
    out = nlattn.nystrom_attention(q, k, v, 4, scale=float(np.float32(0.3)))
    errors = nlattn.certify(out, q, k, v, scale=float(np.float32(0.3)), rng=0).error
    assert [head["error"] for head in rows[1]["heads"]] == pytest.approx(errors[:3], rel=1e-3)


def test_refusal_is_one_row_and_one_sentence(model):
    target = model.parent / "out.json"
    result = invoke("compare", model, "--causal", "--json", target)
    assert result.exit_code == 0
    found = json.loads(target.read_text())
    assert found["input"]["causal"] is True
    (row,) = (row for row in found["rows"] if row["method"] == "nystrom")
    assert row["status"] == "refused"
    assert "no causal form" in row["reason"]
    assert row["budget"] == {}
    assert row["heads"] == []
    assert all(row[name] is None for name in (*FIGURES, "seconds", "speedup", "extra_bytes"))
    assert "nystrom refused: " in result.output


def test_failure_is_a_row_and_the_others_remain(model, monkeypatch):
    def fail(*_, **__):
        raise ArithmeticError("it\nbroke")

    monkeypatch.setattr(Streaming, "apply", fail)
    rows = document(model, "--methods", "nystrom,streaming")["rows"]
    failed = [row for row in rows if row["status"] == "failed"]
    assert {row["method"] for row in failed} == {"streaming"}
    assert {row["reason"] for row in failed} == {"it broke"}
    assert [row["status"] for row in rows if row["method"] == "nystrom"] == ["ok"] * 3


def test_what_is_not_finite_becomes_null(model, monkeypatch):
    apply = Nystrom.apply
    monkeypatch.setattr(Nystrom, "apply", lambda *a: apply(*a) * np.float32(np.nan))
    with np.errstate(all="ignore"):
        rows = document(model, "--methods", "nystrom", "--budgets", "4")["rows"]
    assert rows[1]["error"] is None
    assert rows[1]["heads"][0]["error"] is None


def test_method_without_a_budget_below_s_is_refused(save):
    rows = document(save(**arrays(length=12)), "--methods", "streaming")["rows"]
    assert [row["status"] for row in rows] == ["ok", "refused"]
    assert "--budgets" in rows[1]["reason"]


def test_rtol_marks_rows_and_adds_one(model):
    target = model.parent / "out.json"
    result = invoke("compare", model, "--methods", "streaming", "--rtol", "0.1", "--json", target)
    assert result.exit_code == 0
    row = json.loads(target.read_text())["rows"][-1]
    assert row["method"] == "attention(rtol=0.1)"
    assert row["budget"] == {"rtol": 0.1}
    assert row["upper"] <= 0.1
    assert row["reason"].startswith("used exact for 4 of 4 heads")
    assert "* The upper limit is within the tolerance of 0.1." in result.output


@pytest.mark.parametrize("lead", [(), (1,), (3,)])
def test_axes_that_are_missing(save, lead):
    content = arrays(*lead, heads=2, width=4, s=70)
    found = document(save(**content), "--methods", "exact")
    assert found["input"]["layer"] == (lead[0] - 1 if lead else None)
    assert [found["input"][name] for name in ("L", "S", "E", "Ev")] == [80, 70, 8, 4]
    if not lead:
        flat = {part: array[0] for part, array in content.items()}
        assert document(save(**flat), "--methods", "exact")["input"]["heads"] == [0]


def test_file_without_metadata_says_what_is_assumed(save):
    path = save(**arrays())
    result = invoke("compare", path, "--methods", "exact")
    assert "not causal" in result.output
    assert "E ** -0.5" in result.output
    told = invoke("compare", path, "--methods", "exact", "--no-causal", "--scale", "0.5")
    assert "taken as" not in told.output
    assert "E ** -0.5" not in told.output
    found = document(path, "--methods", "exact", "--scale", "0.5", "--causal")["input"]
    assert found["scale"] == 0.5
    assert found["causal"] is True


def test_float64_stays_and_backends_can_be_named(save):
    found = document(save(**arrays(dtype=">f8")), "--methods", "nystrom", "--backend", "generic")
    assert found["input"]["dtype"] == "float64"
    assert found["environment"]["backend"] == "generic"
