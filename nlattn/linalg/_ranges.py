"""Randomised range finding."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.random import generator, standard_normal
from nlattn.arrays.typing import Array, RngLike
from nlattn.linalg._operators import LinearMap, Operator, operator
from nlattn.linalg._orthonormal import complete, extend, orthonormal
from nlattn.sketch._factory import SketchKind, sketch_operator

__all__ = ["RangeMethod", "Search", "checked_search", "grow", "range_finder"]

RangeMethod = Literal["krylov", "power"]

# Columns of a block where the rank is not known beforehand.
BLOCK = 32


@on_numpy
def range_finder(
    a: Array | LinearMap,
    size: int,
    *,
    method: RangeMethod = "power",
    power_iterations: int = 0,
    sketch: SketchKind = "gaussian",
    rng: RngLike = None,
    check_finite: bool = True,
) -> Array:
    """Orthonormal columns whose span holds most of the range of a matrix.

    Parameters
    ----------
    a : array, shape (m, n), or operator
        Real or complex; an operator has ``shape``, ``@`` and an adjoint, as SciPy's LinearOperator and sparse arrays.
    size : int
        Number of columns, at most min(m, n): the wanted rank and an oversampling of 5 to 10.
    method : {"power", "krylov"}, default "power"
        "power" multiplies a random block by ``(a a^H)^q a``; "krylov" keeps the blocks on the way too, so that the
        random block has about ``size / (q + 1)`` columns only.
    power_iterations : int, default 0
        q. Each costs two more products with `a`; blocks are re-orthonormalised after each product.
    sketch : {"gaussian", "sparse_sign", "srht", "count", "balanced_count"}, default "gaussian"
        The random block.
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    q : array, shape (m, size)
        ``q^H q = I`` to rounding, also where the rank of `a` is below `size`.

    Notes
    -----
    For a Gaussian block and "power", ``nlattn.bounds`` has ``range_finder_frobenius``, ``range_finder_spectral``,
    ``range_finder_power`` (expectations) and ``range_finder_frobenius_tail``, ``range_finder_spectral_tail``.
    Algorithms 4.1 and 4.4 of arXiv 0909.4061. Costs (2 q + 1) products of `a` with `size` columns, and O(m size^2).

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import range_finder
    >>> a = np.outer(np.arange(5.0), np.ones(4))
    >>> q = range_finder(a, 2, rng=0)
    >>> bool(np.allclose(q @ (q.T @ a), a))
    True
    """
    op = operator("a", a, check_finite=check_finite)
    size = check_integer("size", size, least=0, most=min(op.shape), why="the smaller dimension")
    check_choice("method", method, get_args(RangeMethod))
    steps = check_integer("power_iterations", power_iterations, least=0)
    check_choice("sketch", sketch, get_args(SketchKind))
    random = generator(rng)
    width = size if method == "power" else -(-size // (steps + 1))
    search = Search(method=method, sketch=sketch, power_iterations=steps, width=width, end=size)
    basis = op.zeros(op.shape[0], 0)
    for basis, _ in grow(op, search, random):
        if basis.shape[1] >= size:
            break
    if basis.shape[1] < size:
        basis = complete(basis, size, standard_normal(random, (op.shape[0], size), op.like))
    return basis[:, :size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How the range of a matrix is found.

    Attributes
    ----------
    method : {"power", "krylov"}
        "krylov" multiplies on from each block; "power" starts each from a new random one and iterates.
    sketch : str
        The kind of the random blocks.
    power_iterations : int
        For "power", how often each block is multiplied by ``a a^H``.
    width : int
        Columns of a block.
    end : int
        Columns after which the search is over.
    """

    method: RangeMethod
    sketch: SketchKind
    power_iterations: int
    width: int
    end: int


def checked_search(
    op: Operator,
    rank: int | None,
    rtol: float | None,
    *,
    oversampling: int,
    power_iterations: int,
    method: RangeMethod,
    sketch: SketchKind,
    what: str,
) -> tuple[int, float | None, Search]:
    """The largest rank, the tolerance, and the search, from arguments that are checked here; `what` the rank counts."""
    least = min(op.shape)
    if rank is None and rtol is None:
        raise ValueError(f"rank and rtol are both None: give the number of {what}, the tolerance, or both")
    most = least if rank is None else check_integer("rank", rank, least=0, most=least, why="the smaller dimension")
    if rtol is not None:
        rtol = check_number("rtol", rtol, least=8 * float(op.xp.finfo(op.dtype).eps), below=1.0)
    wide = most + check_integer("oversampling", oversampling, least=0)
    steps = check_integer("power_iterations", power_iterations, least=0)
    check_choice("sketch", sketch, get_args(SketchKind))
    width = min(least, wide if rtol is None else BLOCK) if most else 0
    # A Krylov space keeps every block. Without a tolerance the number of products says how many there are.
    end = min(least, width * (steps + 1) if method == "krylov" and rtol is None else wide)
    return most, rtol, Search(method=method, sketch=sketch, power_iterations=steps, width=width, end=end)


def grow(a: Operator, search: Search, random: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yield growing orthonormal bases U of the range of `a`, and a^H U, by about ``search.width`` columns at a time.

    Ends where `a` has no more to give.
    """
    xp, limit, sketch = a.xp, min(a.shape), search.sketch
    basis: Array | None = None
    image: Array | None = None
    seed: Array | None = None
    while (found := 0 if basis is None else basis.shape[1]) < limit and search.width > 0:
        columns = min(search.width, limit - found)
        fresh = seed is None
        start = _first(a, columns, sketch, random) if seed is None else a @ seed[:, : min(columns, seed.shape[1])]
        block = extend(basis, start)
        for _ in range(search.power_iterations if search.method == "power" else 0):
            block = extend(basis, a @ orthonormal(a.adjoint @ block))
        if block.shape[1] == 0:
            if fresh and sketch == "gaussian":
                return
            # The columns of a block of another kind can be dependent by chance; those of a Gaussian one are not.
            seed, sketch = None, "gaussian" if fresh else sketch
            continue
        new = a.adjoint @ block
        basis = block if basis is None else xp.concat([basis, block], axis=1)
        image = new if image is None else xp.concat([image, new], axis=1)
        seed = orthonormal(new) if search.method == "krylov" else None
        yield basis, image


def _first(a: Operator, columns: int, sketch: SketchKind, random: np.random.Generator) -> Array:
    """The product of `a` with a random block."""
    test = sketch_operator(sketch, columns, a.shape[1], rng=random)
    if a.array is not None:
        return test.apply(a.array, axis=1, check_finite=False)
    return a @ test.T.matrix(a.like)
