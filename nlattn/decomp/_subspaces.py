"""Orthonormal bases of the leading left singular directions of unfoldings."""

import numpy as np

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, DType, Namespace
from nlattn.decomp._allowances import Allowance
from nlattn.linalg._magnitudes import squared_norm
from nlattn.linalg._operators import adjoint
from nlattn.linalg._ranges import range_finder

__all__ = ["leading_basis", "signed", "sketched_basis"]

# Eigenvalues of a Gram matrix that are below this many eps times the largest are rounding errors.
RESOLVED = 10.0

# Columns that a randomised range begins with where the rank is to be found.
START = 16

# Columns of a float32 matrix that are converted to float64 at once, which bounds the memory that this takes.
COLUMNS = 1 << 14


def leading_basis(
    xp: Namespace, y: Array, rank: int | Allowance, *, accurate: bool = False, lost: float = 0.0
) -> Array:
    """The leading left singular vectors of `y` (m, n), as many as `rank` says, at most min(m, n).

    They come from the Gram matrix, where rounding hides singular values below sqrt(eps) times the largest. If such a
    direction would be kept and another one dropped, or with `accurate`, they come from a slower factorisation.
    An Allowance is charged with what is dropped, and with the energy `lost` before.
    """
    m, n = y.shape

    def kept(energies: Array) -> int:
        return rank if isinstance(rank, int) else rank.rank(xp, energies, lost)

    def hidden(energies: Array, r: int) -> bool:
        least = RESOLVED * float(xp.finfo(y.dtype).eps) * to_float(energies[0])
        return r < m and to_float(energies[r - 1]) < least

    vectors, energies = _by_qr(xp, y) if m > n else _accurate(xp, y) if accurate else _by_gram(xp, y)
    if not (accurate or m > n) and hidden(energies, kept(energies)):
        vectors, energies = _accurate(xp, y)
    r = kept(energies)
    if isinstance(rank, Allowance):
        rank.spend(lost + to_float(xp.sum(energies[r:])))
    return signed(xp, vectors[:, :r])


def sketched_basis(
    xp: Namespace,
    y: Array,
    rank: int | Allowance,
    rng: np.random.Generator,
    *,
    oversampling: int,
    power_iterations: int,
) -> Array:
    """What `leading_basis` gives for the projection of `y` onto the range of its product with a Gaussian matrix.

    For an Allowance this range is doubled until it misses at most half of the share.
    """
    size = oversampling + (rank if isinstance(rank, int) else START)
    while size < min(y.shape):
        q = range_finder(y, size, power_iterations=power_iterations, rng=rng, check_finite=False)
        small = adjoint(q) @ y
        if isinstance(rank, int):
            return signed(xp, q @ leading_basis(xp, small, rank))
        missed = max(to_float(squared_norm(y)) - to_float(squared_norm(small)), 0.0)
        if missed <= rank.share / 2:
            return signed(xp, q @ leading_basis(xp, small, rank, lost=missed))
        size *= 2
    return leading_basis(xp, y, rank)


def _by_gram(xp: Namespace, y: Array) -> tuple[Array, Array]:
    return _of_gram(xp, y @ adjoint(y), y.dtype)


def _accurate(xp: Namespace, y: Array) -> tuple[Array, Array]:
    """Singular values to eps: for single precision from a Gram matrix in double, else from a QR factorisation."""
    if xp.finfo(y.dtype).bits > 32:
        u, values, _ = xp.linalg.svd(adjoint(xp.linalg.qr(adjoint(y))[1]), full_matrices=False)
        return u, values**2
    wide = xp.complex128 if xp.isdtype(y.dtype, "complex floating") else xp.float64
    gram = xp.zeros((y.shape[0], y.shape[0]), dtype=wide, device=y.device)
    for j in range(0, y.shape[1], COLUMNS):
        part = xp.astype(y[:, j : min(j + COLUMNS, y.shape[1])], wide)
        gram = gram + part @ adjoint(part)
    return _of_gram(xp, gram, y.dtype)


def _by_qr(xp: Namespace, y: Array) -> tuple[Array, Array]:
    q, r = xp.linalg.qr(y)
    u, values, _ = xp.linalg.svd(r, full_matrices=False)
    return q @ u, xp.astype(values, xp.float64) ** 2


def _of_gram(xp: Namespace, gram: Array, dtype: DType) -> tuple[Array, Array]:
    """Eigenvectors in `dtype` and eigenvalues in float64, largest first."""
    values, vectors = xp.linalg.eigh(gram)
    energies = xp.clip(xp.astype(xp.flip(values), xp.float64), 0.0, None)
    return xp.astype(xp.flip(vectors, axis=1), dtype), energies


def signed(xp: Namespace, vectors: Array) -> Array:
    """The vectors with their largest entries real and positive."""
    rows = xp.argmax(xp.abs(vectors), axis=0)
    entries = xp.take_along_axis(vectors, rows[None, :], axis=0)
    phases = entries / xp.abs(entries)
    return vectors * (xp.conj(phases) if xp.isdtype(vectors.dtype, "complex floating") else phases)
