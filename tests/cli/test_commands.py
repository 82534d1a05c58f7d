"""Methods of one's own on the command line, and the other commands."""

import dataclasses
import json

import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from commands import invoke, one_sentence, python

import nlattn

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
