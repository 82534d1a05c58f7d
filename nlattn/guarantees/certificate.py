"""The error of an output, measured on randomly drawn rows."""

from dataclasses import dataclass, field
from typing import Any

import array_api_compat
import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.boundary import lend
from nlattn.arrays.host import all_finite, to_host
from nlattn.arrays.random import private
from nlattn.arrays.typing import Array, RngLike
from nlattn.guarantees.sampling import RowErrors, draw_rows, row_errors
from nlattn.guarantees.statistics import mean_bound, order_statistic, ratio_upper
from nlattn.problem.arguments import checked_problem, one_dtype
from nlattn.problem.problem import Problem

__all__ = ["CERTIFY", "Certificate", "certify"]

#: The spawn key of certificates: their rows never coincide with what a method draws from the same seed.
CERTIFY = 0x63657274


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What sampled exact rows say about the error of an output.

    All fields are NumPy arrays in float64, of shape (..., heads) or, in `pooled`, (...).

    Attributes
    ----------
    error : array
        Estimate of the relative Frobenius error \\|output - exact\\| / \\|exact\\|.
    upper : array
        Upper limit of that error at `confidence`. It is an estimate too, whose coverage is nominal for light tails
        only.
    baseline : array
        The same error of the uniform baseline, in which each output is the mean of the values that its query may see.
        An output whose error is not below it is of no use.
    norm : array
        Estimate of the root mean square of the norms of the exact rows, the scale of the row errors.
    range : array
        Deterministic bound of all row errors, which holds since no exact row leaves the box of the values.
    mean_bound : array
        Bound of the mean row error, with probability `confidence`. The part of it that is due to `range` falls only
        like 1 / rows.
    rows : int
        Sampled rows for each head.
    confidence : float
    exact : bool
        Whether all rows were looked at. Then `error` and `upper` are the error itself.
    pooled : Certificate
        The certificate over all heads of a batch element. A pooled certificate is its own.

    See Also
    --------
    Certificate.quantile : bound of nearly all row errors
    """

    error: np.ndarray
    upper: np.ndarray
    baseline: np.ndarray
    norm: np.ndarray
    range: np.ndarray
    mean_bound: np.ndarray
    rows: int
    confidence: float
    exact: bool
    over_heads: "Certificate | None" = field(default=None, repr=False)
    """The certificate that `pooled` returns; None in a pooled certificate."""
    row_norms: np.ndarray = field(repr=False)
    """The sampled row errors, ascending along the last axis, (..., heads, rows) or (..., heads * rows)."""

    kinds = {  # noqa: RUF012
        "error": "estimate",
        "upper": "estimate",
        "baseline": "estimate",
        "norm": "estimate",
        "quantile": "probabilistic",
        "mean_bound": "probabilistic",
        "range": "deterministic",
    }

    def __str__(self) -> str:
        def numbers(values: np.ndarray) -> str:
            return np.array2string(np.asarray(values), precision=3, separator=", ", threshold=12)

        looked_at = "all rows" if self.exact else f"{self.rows} rows of each head, at {100 * self.confidence:.4g} %"
        text = (
            f"relative Frobenius error {numbers(self.error)}, at most {numbers(self.upper)} (estimates)\n"
            f"95 % of the row errors at most {numbers(self.quantile(0.95))} (bound)\n"
            f"rms row norm {numbers(self.norm)}\n"
            f"uniform baseline {numbers(self.baseline)}; from {looked_at}"
        )
        return text if self.over_heads is None else f"all heads\n{self.over_heads}\neach head\n{text}"

    @property
    def pooled(self) -> "Certificate":
        """The certificate over all heads of a batch element."""
        return self if self.over_heads is None else self.over_heads

    def quantile(self, p: float) -> np.ndarray:
        """Upper bound of the p-quantile of the row errors: at most a part 1 - p of the rows exceeds it.

        A row error is the Euclidean norm of a row of output - exact, in absolute units. The bound holds with
        probability `confidence` for any distribution. Where there are too few rows for that (p = 0.95 needs 90 rows at
        99 %), the `range` is returned.
        """
        if not 0 < p < 1:
            raise ValueError(f"p must lie between 0 and 1, got {p!r}")
        n = self.row_norms.shape[-1]
        if self.exact:
            last = int(np.ceil(p * n)) - 1
            return np.asarray(self.row_norms[..., last] if n else np.zeros(self.row_norms.shape[:-1]))
        k = order_statistic(n, p, 1 - self.confidence)
        return self.range if k is None else np.asarray(np.minimum(self.row_norms[..., n - k], self.range))


def certify(
    output: Array,
    query: Array,
    key: Array,
    value: Array,
    *,
    rows: int = 256,
    confidence: float = 0.99,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    check_finite: bool = True,
) -> Certificate:
    """Measure the error of any attention output against exact attention on randomly drawn rows.

    Parameters
    ----------
    output : array, shape (..., heads, L, Ev)
        The output of any method.
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    rows : int, default 256
        Rows drawn for each batch element and head, without replacement; from L on all rows are taken. They are
        computed in float64 and cost `rows` / L of exact attention in that precision.
    confidence : float, default 0.99
        The confidence of each probabilistic statement by itself.
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`, and as they were given to the method.
    rng : None, int, SeedSequence or Generator, default None
        The rows never coincide with draws that a method made from the same seed.

    Returns
    -------
    Certificate

    Notes
    -----
    The quantile is bounded by order statistics, and the mean by the empirical Bernstein-Serfling inequality (arXiv
    1309.4029). `upper` corrects for skewness, but no limit can see rare bad rows that are not in the sample; the
    quantile says how many such rows there may be.

    Examples
    --------
    >>> import nlattn
    >>> q, k, v = nlattn.datasets.load("minilm")[:3]
    >>> certificate = nlattn.certify(nlattn.nystrom_attention(q, k, v), q, k, v, rng=0)
    >>> bool(certificate.pooled.error < certificate.pooled.upper < certificate.pooled.baseline)
    True
    """
    rows = check_integer("rows", rows)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    lending = lend(output, query, key, value, attn_mask)
    if lending is not None and one_dtype(query, key, value):
        output, query, key, value, attn_mask = lending.arrays((output, query, key, value, attn_mask))
    problem = checked_problem(
        "certify",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        check_finite=check_finite,
    )
    output = _check_output(problem, output)
    if check_finite and not all_finite(problem.xp, output):
        raise ValueError("output contains NaN or inf; pass check_finite=False to have it reported as an infinite error")
    b, h, _, length, _ = problem.shape
    index = np.sort(draw_rows(private(rng, CERTIFY), b, h, length, rows), axis=-1)
    taken = problem.xp.asarray(index[..., None], device=array_api_compat.device(output))
    errors = row_errors(problem.rows(index), problem.xp.take_along_axis(output, taken, axis=2))
    return certificate(problem, errors, output_range(problem, output), confidence)


@np.errstate(invalid="ignore", over="ignore")  # errors are infinite where a NaN was let through
def certificate(problem: Problem, errors: RowErrors, largest: np.ndarray, confidence: float) -> Certificate:
    """The certificate that follows from the errors of sampled rows; `largest` (B, H) bounds all row errors."""
    b, h, _, length, _ = problem.shape
    delta = 1 - confidence
    norms = np.sqrt(errors.error)
    rows = norms.shape[-1]

    def fields(squared: list[np.ndarray], row_norms: np.ndarray, bound: np.ndarray, mean: np.ndarray) -> dict[str, Any]:
        """The fields of a certificate, from the squares of `RowErrors` (..., strata, rows) and row errors (..., n)."""
        top, bottom, base = squared
        error = _ratio(top.sum((-2, -1)), bottom.sum((-2, -1)))
        upper = ratio_upper(top, bottom, length, delta) if rows else np.zeros_like(error)
        return {
            "error": error,
            "upper": np.where(np.isfinite(error), np.maximum(np.sqrt(np.maximum(upper, 0)), error), error),
            "baseline": _ratio(base.sum((-2, -1)), bottom.sum((-2, -1))),
            "norm": np.sqrt(bottom.mean((-2, -1))) if bottom.size else np.zeros(bottom.shape[:-2]),
            "range": bound,
            "mean_bound": mean,
            "row_norms": np.sort(row_norms, axis=-1),
            "rows": rows,
            "confidence": confidence,
            "exact": rows >= length,
        }

    mean = mean_bound(norms, largest, length, delta) if rows else np.zeros((b, h))
    heads = fields([x[..., None, :] for x in errors], norms, largest, mean)
    # The mean over all heads is bounded by the mean of the bounds of each, at an equal share of the failure
    # probability.
    share = mean_bound(norms, largest, length, delta / max(h, 1)).mean(-1) if rows and h else np.zeros(b)
    flat = norms.reshape(b, h * rows)
    pooled = fields(list(errors), flat, largest.max(-1, initial=0.0), share)

    def shaped(values: dict[str, Any], lead: tuple[int, ...], axes: int) -> dict[str, Any]:
        return {
            name: np.asarray(x).reshape((*lead, *x.shape[axes:])) if isinstance(x, np.ndarray | np.generic) else x
            for name, x in values.items()
        }

    lead = (*problem.batch, h) if problem.has_heads else ()
    return Certificate(**shaped(heads, lead, 2), over_heads=Certificate(**shaped(pooled, problem.batch, 1)))


def output_range(problem: Problem, output: Array | None) -> np.ndarray:
    """A bound of the row errors of each head (B, H), from the box of its values and that of the rows of its output.

    The output is of shape (B, H, L, Ev), or None if it is known to lie in the box of the values.
    """
    xp = problem.xp
    b, h, g, length, _ = problem.shape
    if length == 0:
        return np.zeros((b, h))
    low, high = _box(problem)
    # The values of a group serve h // g heads.
    low, high = (np.repeat(edge, h // g, axis=1) for edge in (low, high))
    if output is None:
        return np.asarray(np.sqrt(np.sum((high - low) ** 2, axis=-1)))
    least, most = (to_host(xp.astype(f(output, axis=2), xp.float64)) for f in (xp.min, xp.max))
    reach = np.maximum(np.maximum(most - low, high - least), 0)
    return np.asarray(np.sqrt(np.sum(reach**2, axis=-1)))


def _box(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each column (B, G, Ev), with the output 0 of rows that see nothing."""
    xp = problem.xp
    b, _, g, _, s = problem.shape
    zero = np.zeros((b, g, problem.value.shape[3]))
    if s == 0:
        return zero, zero
    low, high = (to_host(xp.astype(f(problem.value, axis=2), xp.float64)) for f in (xp.min, xp.max))
    empty = problem.mask is not None or problem.bias is not None or bool(xp.any(problem.start >= problem.stop))
    return (np.minimum(low, 0), np.maximum(high, 0)) if empty else (low, high)


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """sqrt(top / bottom), where 0 / 0 is 0, and inf where one of both is not finite."""
    usable = (bottom > 0) & np.isfinite(top) & np.isfinite(bottom)
    ratio = np.sqrt(np.where(usable, top, 0) / np.where(usable, bottom, 1))
    return np.where(usable | ((top == 0) & (bottom == 0)), ratio, np.inf)


def _check_output(problem: Problem, output: Any) -> Array:
    """Check the output that is to be certified, and return it as (B, H, L, Ev)."""
    xp = problem.xp
    expected = (*problem.batch, problem.query.shape[1]) if problem.has_heads else ()
    expected = (*expected, problem.query.shape[2], problem.value.shape[3])
    if not array_api_compat.is_array_api_obj(output) or array_api_compat.array_namespace(output) is not xp:
        raise TypeError(f"output must be an array of the library of query, got {type(output).__name__}")
    if tuple(output.shape) != expected:
        raise ValueError(f"output must have shape {expected}, (..., heads, L, Ev), got {tuple(output.shape)}")
    if not xp.isdtype(output.dtype, "real floating"):
        raise TypeError(f"output must have a real floating dtype, got {output.dtype}")
    return xp.reshape(output, (*problem.query.shape[:3], expected[-1]))
