"""What `nlattn compare` says about input that it cannot use."""

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from commands import invoke, one_sentence, python
from small_arrays import arrays


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
