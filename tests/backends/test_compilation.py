"""When kernels are compiled, what is kept on disk, and what a user at a terminal is told meanwhile."""

import importlib
import io
import time
import types as modules

import numpy as np
import pytest

import nlattn
from nlattn.errors import PerformanceWarning

numba = pytest.importorskip("numba")

from nlattn.backends.numba_cpu.runtime import compilation  # noqa: E402
from nlattn.backends.numba_cpu.vector import row_blocks  # noqa: E402

F4 = np.dtype(np.float32)


class Terminal(io.StringIO):
    def __init__(self, *, terminal=True):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def compile_for(monkeypatch):
    """Compiles something that takes some seconds, from a cache or not, at a terminal or not; returns what is told."""
    monkeypatch.setattr(compilation, "PATIENCE", 0.2)
    monkeypatch.setattr(compilation, "_watch", compilation._Watch())

    def run(*seconds, cached=False, terminal=True):
        left = list(seconds)

        def njit(*_, **__):
            def compiled(_):
                time.sleep(left.pop(0) if left else 0)
                return modules.SimpleNamespace(stats=modules.SimpleNamespace(cache_misses={} if cached else {"f": 1}))

            return compiled

        told = Terminal(terminal=terminal)
        monkeypatch.setattr(compilation, "njit", njit)
        monkeypatch.setattr("sys.stderr", told)
        for _ in seconds:
            compilation.compiled(lambda real: real)(lambda x: x)[F4]
        return told.getvalue()

    return run


def test_long_compilation_is_explained_once(compile_for):
    line = "nlattn: compiling kernels for this machine, once; later runs start at once\n"
    assert compile_for(0.5) == line
    assert compile_for(0.5) == ""


def test_several_compilations_add_up(compile_for):
    assert compile_for(0.1, 0.0) == ""
    assert compile_for(0.4).count("\n") == 1


@pytest.mark.parametrize("quiet", [{"terminal": False}, {"cached": True}])
def test_silence_without_a_terminal_and_for_what_is_cached(compile_for, quiet):
    long = (0.4,) if "terminal" in quiet else (0.1,) * 5
    assert compile_for(*long, **quiet) == ""


def test_no_standard_error_at_all(compile_for, monkeypatch):
    compile_for(0.0)
    monkeypatch.setattr("sys.stderr", None)
    compilation.compiled(lambda real: real)(lambda x: x)[F4]


def test_without_a_folder_to_cache_in(monkeypatch):
    """One warning that says what to do, and the function works."""
    njit = numba.njit

    def refusing(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function")
        return njit(*args, **options)

    monkeypatch.setattr(compilation, "njit", refusing)
    twice = compilation.compiled(lambda real: real(real))(lambda x: 2 * x)
    with pytest.warns(
        PerformanceWarning, match="cannot cache function: compiled anew in each process; set NUMBA_CACHE"
    ):
        assert twice[F4](np.float32(3)) == 6
    assert twice[F4](np.float32(4)) == 8


def test_only_what_a_call_needs_is_compiled(monkeypatch):
    """Exact attention of many rows needs one function in the precision of its arrays, and another with a mask."""
    asked = []

    def _compile(function, signature, how=None):
        if how is None:
            asked.append((function, signature))
        return lambda *args: None

    monkeypatch.setattr(compilation, "_compile", _compile)
    monkeypatch.setattr(compilation, "_shared", [])
    for tiles in (row_blocks._plain_tiles, row_blocks._tiles):
        monkeypatch.setattr(tiles, "_versions", {})
    x = np.ones((2, 80, 8), np.float32)
    nlattn.exact_attention(x, x, x, is_causal=True)
    nlattn.exact_attention(x, x, x)
    assert [function for function, _ in asked] == [row_blocks._plain_tiles.function]
    nlattn.exact_attention(x, x, x, np.ones((80, 80), bool))
    assert [function for function, _ in asked] == [row_blocks._plain_tiles.function, row_blocks._tiles.function]
    assert all("float64" not in str(signature) for _, signature in asked)


def test_later_processes_find_what_was_compiled(run_python, tmp_path):
    code = """
import numpy as np
from nlattn.backends.numba_cpu.kernels import khatri_rao
khatri_rao.khatri_rao(np.ones((3, 2), np.float32), np.ones((3, 2), np.float32))
version = khatri_rao._multiply[np.dtype(np.float32)]
print(sum(version.stats.cache_hits.values()), sum(version.stats.cache_misses.values()))
"""
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == "0 1\n"
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == "1 0\n"


def test_cached_functions_change_name_with_what_they_are_made_of(monkeypatch):
    """The modules whose functions they call, also indirectly, and constants of other modules."""
    found = set()
    compilation._add_modules(vars(row_blocks), found)
    names = ("columns", "counter", "emitter", "exponential", "few_rows", "floats", "hidden", "host")
    names += ("lines", "online_softmax", "operands", "products", "row_blocks", "score_rows")
    assert found == {f"nlattn.backends.numba_cpu.vector.{name}" for name in names}
    before = compilation._stamp(row_blocks._tiles.function)
    assert before == compilation._stamp(row_blocks._tiles.function)
    monkeypatch.setattr(row_blocks, "TILE_KEYS", 4)
    assert before != compilation._stamp(row_blocks._tiles.function)


def test_every_kernel_module_compiles_through_one_place():
    """Nothing else may compile for each new kind of strides, or unseen by the cache's names and the line on stderr."""
    for name in ("segment_sum", "fwht", "top_k", "hash_codes"):
        module = importlib.import_module(f"nlattn.backends.numba_cpu.kernels.{name}")
        assert not [x for x in vars(module).values() if isinstance(x, np.ufunc)]
        assert any(isinstance(x, compilation.Compiled) for x in vars(module).values())
