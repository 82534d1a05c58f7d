"""Randomised range finding."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.random import generator, standard_normal
from nlattn.linalg._operators import Operator, operator
from nlattn.linalg._orthonormal import complete, extend, orthonormal
from nlattn.sketch._factory import SKETCHES, sketch_operator

__all__ = ["grow", "range_finder"]


def range_finder(
    a: Any,
    size: int,
    *,
    method: str = "power",
    power_iterations: int = 0,
    sketch: str = "gaussian",
    rng: Any = None,
    check_finite: bool = True,
) -> Any:
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
    check_choice("method", method, ("power", "krylov"))
    steps = check_integer("power_iterations", power_iterations, least=0)
    check_choice("sketch", sketch, tuple(SKETCHES))
    random = generator(rng)
    width = size if method == "power" else -(-size // (steps + 1))
    basis: Any = None
    for basis, _ in grow(op, width, steps, method, sketch, random):
        if basis.shape[1] >= size:
            break
    if basis is None or basis.shape[1] < size:
        start = op.xp.zeros((op.shape[0], 0), dtype=op.dtype, device=op.like.device) if basis is None else basis
        basis = complete(start, size, standard_normal(random, (op.shape[0], size), op.like))
    return basis[:, :size]


def grow(
    a: Operator, width: int, steps: int, method: str, sketch: str, random: np.random.Generator
) -> Iterator[tuple[Any, Any]]:
    """Yield growing orthonormal bases U of the range of `a`, and a^H U, by about `width` columns at a time.

    Method "krylov" multiplies on from each block; "power" starts each from a new random one and iterates `steps` times.
    Ends where `a` has no more to give.
    """
    xp, limit = a.xp, min(a.shape)
    basis: Any = None
    image: Any = None
    seed: Any = None
    while (found := 0 if basis is None else basis.shape[1]) < limit and width > 0:
        columns = min(width, limit - found)
        fresh = seed is None
        block = extend(
            basis, _first(a, columns, sketch, random) if fresh else a @ seed[:, : min(columns, seed.shape[1])]
        )
        for _ in range(steps if method == "power" else 0):
            block = extend(basis, a @ orthonormal(a.adjoint @ block))
        if block.shape[1] == 0:
            if fresh and sketch == "gaussian":
                return
            # A block of another kind may have been dependent by chance; a Gaussian one is not.
            seed, sketch = None, "gaussian" if fresh else sketch
            continue
        new = a.adjoint @ block
        basis = block if basis is None else xp.concat([basis, block], axis=1)
        image = new if image is None else xp.concat([image, new], axis=1)
        seed = orthonormal(new) if method == "krylov" else None
        yield basis, image


def _first(a: Operator, columns: int, sketch: str, random: np.random.Generator) -> Any:
    """The product of `a` with a random block."""
    test = sketch_operator(sketch, columns, a.shape[1], rng=random)
    if a.array is not None:
        return test.apply(a.array, axis=1, check_finite=False)
    return a @ test.T.matrix(a.like)
