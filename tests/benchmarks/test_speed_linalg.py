"""randomized_svd against scikit-learn and PyTorch, pivoted Cholesky against one column after the other in NumPy."""

import numpy as np
import pytest

import nlattn
from nlattn.linalg import KernelMatrix, gaussian_kernel


@pytest.fixture(scope="module")
def tall():
    """8192 x 1024, singular values 1 / j, in float32; and the exact residual of a factorisation."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, 1024)))[0] for n in (8192, 1024))
    a = ((left / np.arange(1, 1025)) @ right.T).astype(np.float32)

    def error(u, s, vh):
        return np.linalg.norm(a.astype(np.float64) - (u * s).astype(np.float64) @ vh) / np.linalg.norm(a)

    return a, error


def test_randomized_svd(race, tall):
    sklearn = pytest.importorskip("sklearn.utils.extmath")
    torch = pytest.importorskip("torch")
    a, error = tall
    tensor = torch.from_numpy(a)

    def lowrank(iterations):
        u, s, v = torch.svd_lowrank(tensor, q=42, niter=iterations)
        return u.numpy()[:, :32], s.numpy()[:32], v.numpy().T[:32]

    def ours():
        return nlattn.randomized_svd(a, 32, rng=0)[:3]

    rivals = {
        "scikit-learn, 4 iterations": lambda: sklearn.randomized_svd(a, 32, n_iter=4, random_state=0),
        "torch.svd_lowrank, 2": lambda: lowrank(2),
        "torch.svd_lowrank, 4": lambda: lowrank(4),
    }
    errors = {name: error(*rival()) for name, rival in rivals.items()} | {"nlattn": error(*ours())}
    race(ours, rivals, errors)


@pytest.mark.parametrize("pivoting", ["random", "greedy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pivoted_cholesky(race, pivoting, dtype):
    n, rank = 8192, 256
    points = (np.random.default_rng(0).standard_normal((n, 64)) / 8).astype(dtype)
    squares = np.sum(points * points, axis=1)

    def column_by_column(expanded=True):
        rng = np.random.default_rng(0)
        residual, factor = np.ones(n, dtype), np.zeros((n, rank), dtype)
        for i in range(rank):
            if pivoting == "greedy":
                pivot = int(np.argmax(residual))
            else:
                pivot = rng.choice(n, p=residual / residual.sum(dtype=np.float64))
            if expanded:
                column = np.exp(-0.5 * (squares + squares[pivot] - 2 * (points @ points[pivot])))
            else:
                column = np.exp(-0.5 * np.sum((points - points[pivot]) ** 2, axis=1))
            column = column - factor[:, :i] @ factor[pivot, :i]
            factor[:, i] = column / np.sqrt(column[pivot])
            residual = np.maximum(residual - factor[:, i] ** 2, 0)
        return residual.sum() / n

    def ours():
        matrix = KernelMatrix(gaussian_kernel(1.0), points)
        return nlattn.pivoted_cholesky(matrix, rank, pivoting=pivoting, rng=0).error

    errors = {"NumPy": float(column_by_column()), "nlattn": ours()}
    rivals = {
        "NumPy, column by column": lambda: column_by_column(expanded=False),
        "the same from squared norms": column_by_column,
    }
    race(ours, rivals, errors)


def test_growth_of_pivoted_cholesky_with_points(growth):
    points = np.random.default_rng(0).standard_normal((32768, 16)).astype(np.float32) / 4

    def call(n):
        nlattn.pivoted_cholesky(KernelMatrix(gaussian_kernel(1.0), points[:n]), 128, rng=0)

    growth(call, (8192, 16384, 32768), 1)


def test_growth_of_randomized_svd_with_rows(growth):
    a = np.random.default_rng(0).standard_normal((32768, 512)).astype(np.float32) / np.arange(1, 513)

    growth(lambda m: nlattn.randomized_svd(a[:m], 16, rng=0), (8192, 16384, 32768), 1)


def test_growth_of_leverage_scores_with_columns(growth):
    a = np.random.default_rng(0).standard_normal((16384, 512)).astype(np.float32)

    growth(lambda d: nlattn.leverage_scores(a[:, :d]), (128, 256, 512), 2)
