"""Partial attentions: outputs over some of the keys that know the softmax mass of those keys."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

__all__ = ["Partial", "merge_partials"]


class Partial(NamedTuple):
    """Softmax attention over a subset of the keys, and the mass of that subset.

    Attributes
    ----------
    out : array, shape (..., heads, L, Ev)
        The normalised output over the subset; 0 where it is empty.
    lse : array, shape (..., heads, L)
        Natural logarithm of the sum of the exponentials of the scores over the subset; -inf where it is empty.
    """

    out: Any
    lse: Any


def merge_partials(*parts: Partial) -> Partial:
    """Exact attention over the union of disjoint subsets of keys, from the attention over each of them.

    Parameters
    ----------
    *parts : Partial
        At least one. A part with ``lse = -inf`` in a row has no weight there, also when all are empty.

    Returns
    -------
    Partial

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.standard_normal((8, 4)) for _ in range(3))
    >>> left = nlattn.exact_attention(q, k[:3], v[:3], return_lse=True)
    >>> right = nlattn.exact_attention(q, k[3:], v[3:], return_lse=True)
    >>> bool(np.allclose(nlattn.merge_partials(left, right).out, nlattn.exact_attention(q, k, v)))
    True
    """
    if not parts:
        raise ValueError("merge_partials needs at least one Partial, got none")
    shapes = [(tuple(part[0].shape), tuple(part[1].shape)) for part in parts]
    for out_shape, lse_shape in shapes:
        if out_shape[:-1] != lse_shape or shapes[0] != (out_shape, lse_shape):
            raise ValueError(
                f"parts must share one shape, out (..., L, Ev) and lse (..., L), got {shapes}; "
                "compute every part from the same queries"
            )
    if len(parts) == 1:
        return Partial(*parts[0])
    xp = array_namespace(*(array for part in parts for array in part))
    top = parts[0][1]
    for part in parts[1:]:
        top = xp.maximum(top, part[1])
    top = xp.where(top == -xp.inf, xp.zeros_like(top), top)
    weights = [xp.exp(part[1] - top) for part in parts]
    total = sum(weights[1:], start=weights[0])
    empty = total == 0
    total = xp.where(empty, xp.ones_like(total), total)
    # Guarded twice: log(total) and top are finite also where `empty` throws them away, so gradients are 0, not NaN.
    lse = xp.where(empty, -xp.inf, top + xp.log(total))
    terms = [part[0] * (weight / total)[..., None] for part, weight in zip(parts, weights, strict=True)]
    return Partial(sum(terms[1:], start=terms[0]), lse)
