"""The command line: its tables, documents and pictures, and what it says about input that it cannot use."""

import dataclasses
import json
import math

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from commands import invoke, one_sentence, python

import nlattn
from nlattn.cli.measurement.rows import Row
from nlattn.cli.output.verdicts import Verdict, by_time, telling, verdict
from nlattn.methods.lowrank.nystrom import Nystrom
from nlattn.methods.sparse.streaming import Streaming

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
FIGURES = ("error", "upper", "row95", "baseline")


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch):
    monkeypatch.setattr("nlattn.cli.measurement.measure.MOST", 3)


def arrays(*lead, heads=4, heads_kv=2, length=80, s=None, features=8, width=None, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (
        (*lead, heads, length, features),
        (*lead, heads_kv, s or length, features),
        (*lead, heads_kv, s or length, width or features),
    )
    return dict(zip("qkv", (rng.standard_normal(shape).astype(dtype) for shape in shapes), strict=True))


@pytest.fixture
def save(tmp_path):
    def write(name="input.npz", **content):
        np.savez(tmp_path / name, **content)
        return tmp_path / name

    return write


@pytest.fixture
def model(save):
    """Two layers, 5 and 9, of four heads, 10 to 13, on two of keys."""
    return save(
        **arrays(2, dtype=np.float16), layers=[5, 9], q_heads=[10, 11, 12, 13], scale=np.float32(0.3), causal=False
    )


def document(path, *arguments, out="out.json"):
    target = path.parent / out
    result = invoke("compare", path, "--json", target, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(target.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in the document"))


# -- compare: the document --------------------------------------------------------------------------------------------


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


# -- compare: streams, table, picture ---------------------------------------------------------------------------------


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


# -- compare: input that cannot be used -------------------------------------------------------------------------------


def content(case):
    """The content of a file that cannot be used, and words of the sentence about it."""
    good = arrays()
    return {
        "missing": ({"x": np.zeros(3), "q": good["q"]}, "k, v missing, it holds x, q"),
        "axes": (good | {"q": good["q"][0]}, "must all have the axes"),
        "features": (good | {"q": good["q"][..., :4]}, "same last axis"),
        "lengths": (good | {"v": good["v"][:, :9]}, "same length"),
        "heads": (good | {"q": good["q"][:3]}, "multiple"),
        "layers": (arrays(2) | {"q": arrays(3)["q"]}, "same layers"),
        "empty": (good | {"q": good["q"][:, :0]}, "q is empty"),
        "integers": (good | {"q": good["q"].astype(int)}, "q must be float16"),
        "objects": (good | {"q": np.array([None, 1], dtype=object)}, "cannot be read"),
        "nan": (good | {"k": good["k"] * np.float32(np.nan)}, "k contains NaN"),
        "scale": (good | {"scale": np.ones(3)}, "scale must be one number"),
        "causal": (good | {"causal": "yes"}, "causal must be one number"),
        "infinite scale": (good | {"scale": np.inf}, "scale must be finite"),
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "missing",
        "axes",
        "features",
        "lengths",
        "heads",
        "layers",
        "empty",
        "integers",
        "objects",
        "nan",
        "scale",
        "causal",
        "infinite scale",
    ],
)
def test_file_that_does_not_fit(save, tmp_path, case):
    bad, words = content(case)
    path = save(**bad)
    said = one_sentence(invoke("compare", path, "--json", tmp_path / "out.json", "--plot", tmp_path / "out.png"))
    assert words in said
    assert "input.npz" in said
    assert [each.name for each in tmp_path.iterdir()] == ["input.npz"]


@pytest.mark.parametrize("kind", ["absent", "folder", "text", "npy", "cut"])
def test_file_that_is_not_one(tmp_path, model, kind):
    path = tmp_path / "[bold]other.npz"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("q, k, v")
    elif kind == "npy":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif kind == "cut":
        path.write_bytes(model.read_bytes()[:-200])
    said = one_sentence(invoke("compare", path))
    assert str(path) in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--methods", "nystrom,flash"], "got 'flash'"),
        (["--methods", ","], "at least one method"),
        (["--layer", "7"], "input.npz holds 5, 9; got 7"),
        (["--heads", "10,3"], "got 3"),
        (["--heads", "12-10"], "such as 0-2,5"),
        (["--heads", "x"], "such as 0-2,5"),
        (["--budgets", "8,0"], "at least 1"),
        (["--budgets", "-4"], "at least 1"),
        (["--budgets", "8.5"], "comma list of integers"),
        (["--scale", "nan"], "scale must be finite"),
        (["--rtol", "0"], "--rtol must be at least"),
        (["--rtol", "nan"], "--rtol must be at least"),
        (["--backend", "abacus"], "backend must be one of"),
        (["--json", "{folder}"], "is a folder"),
        (["--json", "{folder}/no/out.json"], "no folder"),
        (["--plot", "{folder}/no/out.png"], "no folder"),
        (["--plot", "{folder}/out.xyz"], "picture format"),
        (["--plot", "{folder}/out"], "picture format"),
        (["--json", "{folder}/input.npz"], "different files"),
    ],
)
def test_option_that_cannot_be_used(model, tmp_path, arguments, words):
    before = model.read_bytes()
    said = one_sentence(invoke("compare", model, *(text.format(folder=tmp_path) for text in arguments)))
    assert words in said
    assert [each.name for each in tmp_path.iterdir()] == ["input.npz"]
    assert model.read_bytes() == before


def test_samples_have_one_layer_and_their_heads():
    assert "--layer needs a FILE" in one_sentence(invoke("compare", "--layer", "5"))
    assert "smollm2 holds 0, 1, 2; got 7" in one_sentence(invoke("compare", "--heads", "7"))


def test_output_that_fails_at_the_end_is_a_sentence(model, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    result = invoke("compare", model, "--methods", "exact", "--json", model.parent / "out.json")
    assert result.exit_code == 2
    assert result.output.endswith("--json cannot be written: No space left on device.\n")


def test_sentences_go_to_stderr(tmp_path):
    result = python("-m", "nlattn", "compare", tmp_path / "absent.npz", "--json", "-")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == f"There is no file {tmp_path / 'absent.npz'}.\n"


def test_thread_number_that_cannot_be_used(model):
    result = python("-m", "nlattn", "compare", model, NLATTN_NUM_THREADS="many")
    assert result.returncode == 2
    assert "NLATTN_NUM_THREADS" in result.stderr
    assert result.stderr.count("\n") == 1


# -- methods of one's own ---------------------------------------------------------------------------------------------

OWN = """
from dataclasses import dataclass, replace
import nlattn

@nlattn.register
@dataclass(frozen=True)
class Own(nlattn.Method):
    record = nlattn.Record(
        name="own", family="own", paper="none", principle="the mean", cost=lambda n: n.L, causal="strict", masks="any",
        rows_sum_to_one=True, convex=True, key_permutation=True, deterministic=True, probe="rows",
    )
    def prepare(self, problem, rng):
        return None
    def apply(self, state, rows):
        return nlattn.interval_attention(replace(rows, scale=0.0)).out
"""


def test_a_file_of_ones_own_is_loaded(tmp_path, model):
    (tmp_path / "own.py").write_text(OWN)
    result = python("-m", "nlattn", "compare", model, "--load", tmp_path / "own.py", "--methods", "own", COLUMNS="120")
    assert result.returncode == 0, result.stderr
    (row,) = (line for line in result.stdout.splitlines() if line.split()[:1] == ["own"])
    assert "no better than uniform" in row
    assert "own  the mean" in python("-m", "nlattn", "methods", "--load", tmp_path / "own.py").stdout


def test_what_cannot_be_loaded_is_one_sentence(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    assert "ZeroDivisionError" in one_sentence(invoke("methods", "--load", tmp_path / "broken.py"))
    assert "ModuleNotFoundError" in one_sentence(invoke("methods", "--load", "no_such_module"))


# -- the other commands -----------------------------------------------------------------------------------------------


def test_methods_as_json_is_the_registry():
    result = invoke("methods", "--json")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert set(found) == {"schema", "methods"}
    assert found["schema"] == "nlattn.methods/1"
    assert [method["name"] for method in found["methods"]] == list(nlattn.METHODS)
    for facts, record in zip(found["methods"], nlattn.METHODS.values(), strict=True):
        names = {field.name for field in dataclasses.fields(record)} - {"method"}
        assert set(facts) == names
        for name in names - {"cost", "exact_at", "budgets"}:
            assert facts[name] == json.loads(json.dumps(getattr(record, name)))
        defaults = {budget["name"]: budget["default"] for budget in facts["budgets"]}
        assert defaults == record.method().budgets
        sizes = {"L": 40, "S": 30, "E": 8, "Ev": 5}
        names = sizes | defaults | {"min": min}
        assert eval(facts["cost"], {}, names) == record.cost(nlattn.Sizes(**sizes), **defaults)
        if facts["exact_at"] is not None:
            assert eval(facts["exact_at"], {}, names) == record.exact_at(nlattn.Sizes(**sizes), **defaults)


def test_methods_prints_every_record():
    result = invoke("methods")
    assert result.exit_code == 0
    for record in nlattn.METHODS.values():
        for words in (record.name, record.family, record.paper, record.principle):
            assert words in " ".join(result.output.split())
    assert max(map(len, result.output.splitlines())) <= 80


def test_version_and_help():
    assert invoke("--version").output == f"nlattn {nlattn.__version__}\n"
    helped = invoke("compare", "--help")
    assert helped.exit_code == 0
    assert "--causal" in helped.output


@pytest.mark.parametrize("missing", [["rich"], ["typer", "matplotlib"]])
def test_without_the_extra_it_says_what_to_install(missing):
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); from nlattn.__main__ import main; main()"
    result = python("-c", code)
    assert result.returncode == 2
    assert result.stdout == ""
    assert 'python -m pip install "nlattn[cli]"' in result.stderr
    assert all(name in result.stderr for name in missing)
    assert result.stderr.count("\n") == 1
