"""Products of matrices from a sample of their terms."""

from typing import Literal, get_args

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, matrix
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.precision import real_dtype
from nlattn.arrays.typing import Array, RngLike
from nlattn.linalg._magnitudes import row_norms
from nlattn.linalg._operators import adjoint
from nlattn.linalg._sampling import importance_sample

__all__ = ["product_probabilities", "sampled_product"]

Kind = Literal["optimal", "rows", "uniform"]


@on_numpy
def product_probabilities(a: Array, b: Array, kind: Kind = "optimal") -> Array:
    """Probabilities with which to sample the terms of ``a @ b``, column of `a` times row of `b`.

    Parameters
    ----------
    a : array, shape (m, n)
    b : array, shape (n, p)
    kind : {"optimal", "rows", "uniform"}, default "optimal"
        Proportional to ``|a_i| |b_i|``, which is the best for the Frobenius norm; to ``|b_i|^2``, which needs `b`
        alone; or equal.

    Returns
    -------
    array, shape (n,)
        Uniform where all terms vanish.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import product_probabilities
    >>> product_probabilities(np.array([[1.0, 1.0]]), np.array([[3.0], [1.0]]))
    array([0.75, 0.25])
    """
    xp = namespace(a=a, b=b)
    a, b = _factors(a, b)
    check_choice("kind", kind, get_args(Kind))
    rows = _relative(row_norms(b))
    if kind == "optimal":
        weights = _relative(_relative(row_norms(adjoint(a))) * rows)
    else:
        weights = rows * rows if kind == "rows" else xp.ones_like(rows)
    if rows.shape[0] == 0:
        return xp.astype(weights, real_dtype(xp, a.dtype))
    total = xp.sum(weights)
    if not to_float(total) > 0:
        weights, total = xp.ones_like(weights), weights.shape[0]
    return xp.astype(weights / total, real_dtype(xp, a.dtype))


@on_numpy
def sampled_product(a: Array, b: Array, size: int, *, kind: Kind = "optimal", rng: RngLike = None) -> Array:
    """An unbiased estimate of ``a @ b`` from some of its terms.

    Parameters
    ----------
    a : array, shape (m, n)
    b : array, shape (n, p)
        Real or complex.
    size : int
        Terms, drawn with replacement, at least 1.
    kind : {"optimal", "rows", "uniform"}, default "optimal"
        As in `product_probabilities`.
    rng : None, int, SeedSequence or Generator, optional

    Returns
    -------
    array, shape (m, p)

    Notes
    -----
    Its mean squared error is known exactly: ``sampled_product_error`` in ``nlattn.bounds`` (Drineas, Kannan and
    Mahoney, DOI 10.1137/S0097539704442684); ``sampled_attention_spectral`` for softmax weights and "rows". Costs
    m size p, and m n for "optimal".

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import sampled_product
    >>> sampled_product(np.ones((1, 4)), np.ones((4, 1)), 2, rng=0)
    array([[4.]])
    """
    size = check_integer("size", size)
    probabilities = product_probabilities(a, b, kind)
    a, b = _factors(a, b)
    xp = array_namespace(a)
    if a.shape[1] == 0:
        return a @ b
    index, log_weight = importance_sample(probabilities, size, rng=rng)
    return (xp.take(a, index, axis=1) * xp.astype(xp.exp(log_weight), a.dtype)[None, :]) @ xp.take(b, index, axis=0)


def _relative(norms: Array) -> Array:
    most = to_float(array_namespace(norms).max(norms)) if norms.shape[0] else 0.0
    return norms / most if most > 0 else norms


def _factors(a: Array, b: Array) -> tuple[Array, Array]:
    a, b = matrix("a", a, allow_complex=True), matrix("b", b, allow_complex=True)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must match in the middle, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != b.dtype:
        raise TypeError(f"a and b must share one dtype, got {a.dtype} and {b.dtype}; convert one")
    return a, b
