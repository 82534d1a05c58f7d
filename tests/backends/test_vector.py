"""The micro-kernels in LLVM's vector language against NumPy, on this processor and on others that can be imitated."""

import itertools

import numba
import numpy as np
import pytest

from nlattn.backends.numba_cpu.vector.columns import column_exponentials, column_maxima
from nlattn.backends.numba_cpu.vector.host import HOST, described
from nlattn.backends.numba_cpu.vector.products import lanes, product

rng = np.random.default_rng(0)
DTYPES = [np.float32, np.float64]


@numba.njit
def multiply(sizes, left, right, result, add, like):
    m, n, k = sizes
    product(m, n, k, left, right, result, add, like)


@numba.njit
def maxima(tile, m, top):
    column_maxima(tile.shape[0], m, tile.ctypes.data, tile.shape[1] * tile.itemsize, top.ctypes.data, top[0])


@numba.njit
def exponentials(tile, m, shift, total):
    row, like = tile.shape[1] * tile.itemsize, shift[0]
    column_exponentials(tile.shape[0], m, tile.ctypes.data, row, shift.ctypes.data, total.ctypes.data, like)


@numba.njit
def lanes_of(like):
    return lanes(like)


def places(array):
    return array.ctypes.data, *array.strides


@pytest.mark.parametrize("dtype", DTYPES)
def test_product(dtype):
    """All tails of rows and columns; what lies beside the result is left alone."""
    width, rows = HOST.lanes(np.dtype(dtype).itemsize), HOST.rows
    heights = 1, rows // 3, rows + 1, 2 * rows + rows // 3 + 2
    widths = 1, 3, 4, width - 1, width, HOST.vectors * width, 3 * width + 7
    for m, n, k, flipped, add in itertools.product(heights, widths, (0, 1, 9), (False, True), (False, True)):
        a = rng.standard_normal((k, m) if flipped else (m, k)).astype(dtype)
        a = a.T if flipped else a
        b, around = rng.standard_normal((k, n + 2)).astype(dtype), rng.standard_normal((m, n + 2)).astype(dtype)
        wanted = around.astype(np.float64)
        wanted[:, 1:-1] = a.astype(np.float64) @ b[:, 1:-1] + (wanted[:, 1:-1] if add else 0)
        at_b, at_c = places(b[:, 1:-1])[:2], places(around[:, 1:-1])[:2]
        multiply((m, n, k), places(a), at_b, at_c, add, dtype(0))
        np.testing.assert_allclose(around, wanted, rtol=0, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 9])
def test_columns(dtype, n):
    width = lanes_of(dtype(0))
    tile = (30 * rng.standard_normal((n, 3 * width))).astype(dtype)
    tile[rng.random(tile.shape) < 0.2] = -np.inf
    top = np.where(rng.random(3 * width) < 0.5, -np.inf, 20.0).astype(dtype)
    before, columns = top.copy(), 2 * width
    maxima(tile, columns, top)
    wanted = np.maximum(before, np.max(tile, axis=0, initial=-np.inf))
    np.testing.assert_array_equal(top[:columns], wanted[:columns])
    np.testing.assert_array_equal(top[columns:], before[columns:])
    shift, total, scores = np.where(top == -np.inf, 0, top).astype(dtype), np.ones(3 * width, dtype), tile.copy()
    shift[:] = np.where(shift < np.max(tile, axis=0, initial=0), np.max(tile, axis=0, initial=0), shift)
    exponentials(tile, columns, shift, total)
    wanted = np.exp(scores.astype(np.float64) - shift)
    tiny = np.finfo(dtype).tiny  # what would be subnormal may be 0
    np.testing.assert_allclose(tile[:, :columns], wanted[:, :columns], rtol=80 * np.finfo(dtype).eps, atol=4 * tiny)
    assert np.all(tile[:, :columns][scores[:, :columns] == -np.inf] == 0)
    np.testing.assert_array_equal(tile[:, columns:], scores[:, columns:])
    np.testing.assert_allclose(total[:columns], 1 + tile.sum(axis=0)[:columns], rtol=10 * np.finfo(dtype).eps)


def test_a_nan_shows_in_the_sum():
    width = lanes_of(np.float32(0))
    tile = np.full((5, width), -3.0, np.float32)
    tile[2, 1] = np.nan
    top, total = np.full(width, -np.inf, np.float32), np.zeros(width, np.float32)
    maxima(tile, width, top)
    np.testing.assert_array_equal(top, np.full(width, -3.0))
    exponentials(tile, width, top, total)
    assert np.isnan(total[1])
    assert np.isnan(total).sum() == 1


def test_exponential_is_as_exact_as_two_units():
    x = np.linspace(-80, 0, 40_001, dtype=np.float32)
    width = lanes_of(np.float32(0))
    tile = np.resize(x, (len(x) // width + 1, width)).copy()
    wanted = np.exp(tile.astype(np.float64))
    exponentials(tile, width, np.zeros(width, np.float32), np.zeros(width, np.float32))
    # The rounding of x log2(e) adds |x| eps / 2.
    allowed = np.finfo(np.float32).eps * (1 + np.abs(np.log(wanted)))
    assert np.all(np.abs(tile - wanted) <= allowed * wanted)


def test_register_blocks():
    """The block of each kind of processor: the accumulators leave registers for the operands."""
    x86, arm = "x86_64-unknown-linux-gnu", "aarch64-apple-darwin"
    for features, machine, registers, width in (
        ("+avx512f,+avx2,+fma", x86, 32, 64),
        ("+avx2,+fma", x86, 16, 32),
        ("", x86, 16, 16),
        ("+neon", arm, 32, 16),
    ):
        block = described(features, machine)
        assert block.width == width
        assert block.rows * block.vectors + block.vectors + 1 <= registers
        assert block.rows % 3 == 0


@pytest.mark.parametrize(
    ("name", "features", "width"),
    [("haswell", "+avx2,+fma", 32), ("haswell", None, 32), ("generic", "", 16)],
)
def test_other_processors(run_python, tmp_path, name, features, width):
    """What is compiled for another processor has the same results, and lies beside the rest in the cache."""
    code = """
        import numpy as np, nlattn
        from nlattn.backends.numba_cpu.vector.host import HOST
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((2, 70, 40)).astype(np.float32) for _ in range(3))
        scores = q.astype(float) @ k.swapaxes(1, 2) / 40**0.5 + np.where(np.tri(70) > 0, 0, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = weights / weights.sum(-1, keepdims=True) @ v
        error = np.abs(nlattn.exact_attention(q, k, v, is_causal=True) - wanted).max()
        print(HOST.width, error < 2e-6)
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    environment = {"NUMBA_CPU_NAME": name, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    if features is not None:
        environment["NUMBA_CPU_FEATURES"] = features
    assert run_python(code, **environment).split() == [str(width), "True"]
    files = set((tmp_path / "cache").rglob("*.nbc"))
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")).split() == [str(HOST.width), "True"]
    assert files < set((tmp_path / "cache").rglob("*.nbc"))
