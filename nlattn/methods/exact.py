"""Exact softmax attention."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nlattn.arrays.typing import Array
from nlattn.attend.intervals import interval_attention
from nlattn.methods.method import Method, run
from nlattn.methods.record import Record, Sizes
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["Exact", "exact_attention"]


def exact_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = True,
    *,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Softmax attention over all keys, softmax(scale * query @ key^T) @ value, in memory linear in the length.

    Takes the calls of ``torch.nn.functional.scaled_dot_product_attention`` on any array library.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
        Or (L, E) without heads; key and value have none either then.
    key : array, shape (..., heads_kv, S, E)
        `heads` must be a multiple of `heads_kv`; query head h uses key head ``h // (heads // heads_kv)``.
    value : array, shape (..., heads_kv, S, Ev)
    attn_mask : array, broadcasts to (..., heads, L, S), default None
        Boolean, True where a query may attend, or floating, added to the scaled scores. Only False and -inf mask.
    dropout_p : float, default 0.0
        Only there for the sake of the signature: anything but 0 is refused.
    is_causal : bool, default False
        Query i sees the keys j <= i + S - L (the last query is the newest), combined with `attn_mask` by AND.
        PyTorch aligns at the top left instead, which differs where L != S.
    scale : float, default E ** -0.5
    enable_gqa : bool, default True
        Whether `heads` may differ from `heads_kv`.
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp of each row's scores.
    check_finite : bool, default True
        Raise for NaN or inf in a query, or in a key or value that some query may attend to. With False a NaN reaches
        only the rows that may attend to it.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        In the dtype of the input; float16 and bfloat16 are accumulated in float32. Exactly 0 for a row that may
        attend to nothing.
        With `return_lse` the pair (out, lse), lse of shape (..., heads, L), natural logarithm, -inf for such a row.

    Raises
    ------
    ValueError
        For shapes that do not fit, `dropout_p` other than 0, or NaN and inf as above.
    TypeError
        For arguments that are not arrays of one real floating dtype.

    Notes
    -----
    Source: arXiv 1706.03762. Keys are met in tiles with a running maximum, as in arXiv 1805.02867. The error is that of
    the plain formula in the same precision. Bounds: ``online_softmax_rounding``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.standard_normal((2, 100, 16), dtype=np.float32) for _ in range(3))
    >>> nlattn.exact_attention(q, k, v, is_causal=True).shape
    (2, 100, 16)
    """

    if dropout_p != 0:
        raise ValueError(f"dropout_p must be 0, got {dropout_p!r}: nlattn computes attention for inference")
    if not enable_gqa and query.ndim > 2 and key.ndim > 2 and query.shape[-3] != key.shape[-3]:
        raise ValueError(
            f"query has {query.shape[-3]} heads and key has {key.shape[-3]}: pass enable_gqa=True or repeat the keys"
        )
    return run(
        Exact(),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        return_lse=return_lse,
        check_finite=check_finite,
    )


@dataclass(frozen=True)
class Exact(Method[None]):
    """See `exact_attention`."""

    record = Record(
        name="exact",
        family="exact",
        paper="1706.03762",
        principle="softmax over all keys, streamed in tiles",
        cost=lambda n: n.L * n.S * (n.E + n.Ev),
        causal="strict",
        masks="any",
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=True,
        deterministic=True,
        probe="rows",
        bounds=("online_softmax_rounding",),
    )

    def is_exact(self, sizes: Sizes) -> bool:
        """Always."""
        return True

    def prepare(self, problem: Problem, rng: np.random.Generator) -> None:
        """Exact attention prepares nothing."""

    def apply(self, state: None, rows: Problem) -> Partial:
        """All keys of each row."""
        return interval_attention(rows)
