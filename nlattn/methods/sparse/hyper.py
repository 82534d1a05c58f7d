"""HyperAttention: blocks of similar keys, and a uniform sample of the others."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.typing import Array, RngLike
from nlattn.methods.method import run
from nlattn.methods.record import Budget, Record
from nlattn.methods.sampled import SAMPLED_BOUNDS, SampledMethod, Variant
from nlattn.select.sampled_keys import Importance, squared_norms

__all__ = ["Hyper", "hyper_attention"]

Sampling = Literal["uniform", "values"]


def hyper_attention(
    query: Array,
    key: Array,
    value: Array,
    bucket_size: int = 256,
    samples: int = 256,
    *,
    sampling: Sampling = "uniform",
    bits: int = 7,
    variant: Variant = "nlattn",
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: RngLike = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention within blocks of similar queries and keys, and sampled keys for all the rest.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    bucket_size : int, default 256
        Keys of a block, at least 1. With S or more the result is exact attention.
    samples : int, default 256
        Keys drawn with replacement for each key head, at least 1. All queries of that head share them.
    sampling : {"uniform", "values"}, default "uniform"
        With which probabilities keys are drawn. "uniform": with equal ones. "values": with the mean of equal ones and
        ones in proportion to the squared norms of the values.
    bits : int, default 7
        The number of hyperplanes of the hash, 1 to 62.
    variant : {"nlattn", "paper"}, default "nlattn"
        With "paper" queries and keys are hashed as they are, and blocks are paired by rank; see Notes.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
    is_causal : bool, default False
        Works by recursive halving. Attention is exact within stretches of at most ``2 * (bucket_size + samples)`` keys;
        between the halves of longer stretches, the later queries meet the earlier keys, with the full budgets on each
        level. Future keys and values have no influence, but which block a query meets may depend on later queries.
    scale : float, default E ** -0.5
    rng : None, int, SeedSequence or Generator, default None
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the estimated log-sum-exp of each row's scores.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)
        Convex combinations of the values.

    Notes
    -----
    Queries and keys are sorted by the Gray rank of their hyperplane codes and cut into blocks. The keys of a row's
    block have weight ``exp(score)``; a drawn key of probability p has ``exp(score) / (samples p)``, or 0 if it is in
    the row's block. For a given hash, numerator and denominator of the softmax are both unbiased; their ratio is not.
    The cost is L (bucket_size + samples) (E + Ev) multiplications and sorting, with causality for each level.
    At the default budgets relative errors were 0.09 to 0.5 on layers of MiniLM, DINOv2 and Whisper, and 0.19 to 1.3 on
    layers of SmolLM2, so certify the output.

    Bounds hold for a given hash, and with causality for what the queries of one half meet in the other. They are
    ``normaliser_mean``, ``normaliser_variance``, ``normaliser_variance_limit``, ``normaliser_deviation`` and
    ``normaliser_perturbation`` for the normalisers, ``ratio_identity``, ``ratio_variance`` and ``ratio_error`` for the
    outputs, and ``sampled_attention_spectral`` where normalisers are exact and there are no blocks.

    Source: arXiv 2310.05869. Departures from its official code: the sort follows the inverse Gray map (the map itself,
    which that code uses, does not make neighbours differ by one bit), samples in a row's own block never count twice,
    and block sizes need not divide lengths. There are two more unless ``variant="paper"``: queries and keys are hashed
    after their means are subtracted, and a block of queries meets the keys with the code of its middle row rather than
    those of its rank, which matters where queries and keys have different distributions.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("smollm2")
    >>> q, k, v = sample.query, sample.key, sample.value
    >>> out = nlattn.hyper_attention(q, k, v, 128, 128, is_causal=True, rng=0)
    >>> out.shape == q.shape
    True
    """

    return run(
        Hyper(bucket_size, samples, sampling=sampling, bits=bits, variant=variant),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        rng=rng,
        return_lse=return_lse,
        check_finite=check_finite,
    )


@dataclass(frozen=True)
class Hyper(SampledMethod):
    """See `hyper_attention`."""

    record = Record(
        name="hyper",
        family="sparse",
        paper="2310.05869",
        principle="blocks of similar hash codes, and uniformly sampled keys for the rest",
        cost=lambda n, bucket_size, samples: n.L * (bucket_size + samples) * (n.E + n.Ev),
        exact_at=lambda n, bucket_size, samples: bucket_size >= n.S,
        causal="keys",
        masks="keys",
        budgets=(
            Budget(name="bucket_size", ladder=(64, 128, 256, 512), unit="keys"),
            Budget(name="samples", ladder=(64, 128, 256, 512), unit="keys"),
        ),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=False,
        probe="full",
        bounds=SAMPLED_BOUNDS,
    )

    sampling: Sampling = "uniform"

    @property
    def claims(self) -> Record:
        """If the probabilities depend on the values, the output is not linear in them."""
        return replace(self.record, linear=self.sampling == "uniform")

    @property
    def importance(self) -> Importance | None:
        """Equal probabilities, or half of them in proportion to squared norms of values."""
        return _half_by_values if self.sampling == "values" else None


def _half_by_values(value: Array, count: Array) -> Array:
    """Half of the probability in equal parts, and half in proportion to the squared norms of the values."""
    xp = array_namespace(value)
    squares = squared_norms(value)
    total = xp.sum(squares, axis=-1, keepdims=True)
    equal = 1 / xp.astype(nonzero(count), xp.float64)[..., None]
    return equal + squares / nonzero(total)
