"""Traces from products with random vectors."""

import math
from typing import Literal, NamedTuple, get_args

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator, moved, random_signs, standard_normal
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._magnitudes import scaled
from nlattn.linalg._operators import LinearMap, Operator, adjoint, operator

__all__ = ["TraceEstimate", "trace_estimate"]

Method = Literal["xtrace", "hutch++", "hutchinson"]
Test = Literal["sign", "gaussian"]


class TraceEstimate(NamedTuple):
    """An unbiased estimate of a trace.

    Attributes
    ----------
    value : float
    standard_error : float
        Estimated too; nan from a single product.
    products : int
        Products with the matrix that were made.
    kind : str
        "estimate": no limit holds with a stated probability.
    """

    value: float
    standard_error: float
    products: int
    kind: Literal["estimate"] = "estimate"


@on_numpy
def trace_estimate(
    a: Array | LinearMap,
    products: int,
    *,
    method: Method = "xtrace",
    test: Test | None = None,
    rng: RngLike = None,
    check_finite: bool = True,
) -> TraceEstimate:
    """The trace of a matrix that is known by its products.

    Parameters
    ----------
    a : array, shape (n, n), or operator
        Real, not necessarily symmetric; an operator has ``shape`` and ``@``.
    products : int
        Products with `a`, at most; "xtrace" uses an even number, at most 2 n, "hutch++" a multiple of 3.
    method : {"xtrace", "hutch++", "hutchinson"}, default "xtrace"
        "hutchinson": the mean of ``w^T a w`` (Girard, Hutchinson). "hutch++" (arXiv 2010.09649) and "xtrace"
        (arXiv 2301.07825) take the trace on a range exactly, and estimate the rest; "xtrace" uses each vector for both.
    test : {"sign", "gaussian"}, default "gaussian" for "xtrace", "sign" for the others
        The entries of w. Each is the better choice there.
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    TraceEstimate
        ``value``, ``standard_error``, ``products``, ``kind``. The terms of "xtrace" depend on each other, so that its
        standard error is a rough one. With more than twice as many products as the rank of `a`, and 2 more, "xtrace"
        is exact to rounding.

    Notes
    -----
    ``nlattn.bounds``: ``trace_variance`` for "hutchinson".

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.trace_estimate(np.diag([3.0, 1.0, 0.0, 0.0]), 6, rng=0).value, 9)
    4.0
    """
    op = operator("a", a, allow_complex=False, check_finite=check_finite)
    n = op.shape[0]
    if n != op.shape[1]:
        raise ValueError(f"a must be square, got shape {op.shape}")
    check_choice("method", method, get_args(Method))
    if test is None:
        test = "gaussian" if method == "xtrace" else "sign"
    check_choice("test", test, get_args(Test))
    least = {"xtrace": 2, "hutch++": 3, "hutchinson": 1}[method]
    products = check_integer("products", products, least=least)
    random = generator(rng)
    if n == 0:
        return TraceEstimate(0.0, 0.0, 0)

    def draw(columns: int) -> Array:
        if test == "gaussian":
            return standard_normal(random, (n, columns), op.like)
        return moved(random_signs(random, (n, columns)), op.like, op.dtype)

    if method == "hutchinson":
        found = _hutchinson(op, draw(products))
    elif method == "hutch++":
        third = products // 3
        found = _hutch_plus_plus(op, draw(min(third, n)), draw(third))
    else:
        found = _xtrace(op, draw(min(products // 2, n)), test == "gaussian")
    return found._replace(value=found.value * op.scale, standard_error=found.standard_error * op.scale)


def _hutchinson(op: Operator, test: Array) -> TraceEstimate:
    """The mean of quadratic forms."""
    terms = op.xp.sum(test * (op @ test), axis=0)
    return _mean(terms, 0.0, test.shape[1])


def _hutch_plus_plus(op: Operator, first: Array, second: Array) -> TraceEstimate:
    """The trace on the range of the first images, and the mean of quadratic forms of what the others have beyond it."""
    xp = op.xp
    q, _ = xp.linalg.qr(op @ first, mode="reduced")
    exact = to_float(xp.sum(q * (op @ q)))
    rest = second - q @ (adjoint(q) @ second)
    image = op @ rest
    terms = xp.sum(rest * image, axis=0)
    return _mean(terms, exact, 2 * first.shape[1] + second.shape[1])


def _xtrace(op: Operator, test: Array, on_sphere: bool) -> TraceEstimate:
    """Each test vector is used for an estimate against the range Q of the images of all others.

    To leave out image i is to take the direction s_i = R^-T e_i / |R^-T e_i| out of the range of Q. With
    u = (I - s_i s_i^T) Q^T w_i, what is left of w_i is w_i - Q u; its quadratic form needs Q^T a Q and (a Q)^T w_i.
    """
    xp, n, count = op.xp, op.shape[0], test.shape[1]
    q, r = xp.linalg.qr(op @ test, mode="reduced")
    q, r, z, test = (xp.astype(x, xp.float64) for x in (q, r, op @ q, test))
    h, w, t = adjoint(q) @ z, adjoint(q) @ test, adjoint(z) @ test
    s = _left_out(r)
    c = xp.sum(s * w, axis=0)
    u = w - s * c[None, :]
    rest = c * xp.sum(s * r, axis=0) - xp.sum(t * u, axis=0) + xp.sum(u * (h @ u), axis=0)
    if on_sphere:
        # The direction of what is left is uniform and independent of its length, so that a mean may replace it.
        length = xp.sum(test * test, axis=0) - xp.sum(u * u, axis=0)
        rest = xp.where(length > 0, rest * (n - count + 1) / xp.where(length > 0, length, xp.ones_like(length)), rest)
    terms = rest - xp.sum(s * (h @ s), axis=0)
    return _mean(terms, to_float(xp.sum(xp.linalg.diagonal(h))), 2 * count)


def _left_out(r: Array) -> Array:
    """The unit vectors s_i that are orthogonal to all columns of a triangular r except the i-th."""
    xp = array_namespace(r)
    r = scaled(r)[0]
    diagonal = xp.linalg.diagonal(r)
    # For an image in the span of the others there is no such vector; any that is orthogonal to all images will do.
    least = float(xp.finfo(r.dtype).eps) * to_float(xp.max(xp.abs(diagonal))) or 1.0
    eye = xp.eye(r.shape[0], dtype=r.dtype, device=r.device)
    lift = xp.where(xp.abs(diagonal) < least, xp.full_like(diagonal, least), xp.zeros_like(diagonal))
    s = solve_triangular(adjoint(r + eye * lift[None, :]), eye)
    return s / xp.linalg.vector_norm(s, axis=0)[None, :]


def _mean(terms: Array, exact: float, products: int) -> TraceEstimate:
    """An exact part and the mean of independent terms."""
    xp = array_namespace(terms)
    terms, _, scale = scaled(xp.astype(terms, xp.float64))
    count = terms.shape[0]
    error = to_float(xp.std(terms, correction=1)) / math.sqrt(count) * scale if count > 1 else math.nan
    return TraceEstimate(exact + to_float(xp.mean(terms)) * scale, error, products)
