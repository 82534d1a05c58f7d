"""Checks of the weights that a method gives to the values: their sum, their sign, and the order of the keys."""

from typing import Any

import numpy as np

from nlattn.testing._asserts import assert_close
from nlattn.testing._suite import ROUNDING, Subject, check

__all__ = [
    "check_convex",
    "check_deterministic_is_denied",
    "check_key_permutation",
    "check_key_permutation_is_denied",
    "check_linear_is_denied",
    "check_not_convex",
    "check_rows_do_not_sum_to_one",
    "check_rows_sum_to_one",
]


def _weights(subject: Subject, size: float = 1.0, seed: int = 0, **options: Any) -> Any:
    """The weights (heads, L, S): the output for v = I, from entries of a given size."""
    q, k, v = subject.draw(seed=seed)
    eye = np.broadcast_to(np.eye(v.shape[-2]), (*v.shape[:-1], v.shape[-2]))
    return subject(size * q, size * k, eye, **options)


def _many(subject: Subject) -> list[Any]:
    """Weights of several inputs, from flat to peaked."""
    return [_weights(subject, size, seed) for size in (0.5, 1.0, 2.0, 4.0) for seed in range(3)]


def _all_options(subject: Subject) -> list[dict[str, Any]]:
    s = subject.draw()[1].shape[-2]
    options: list[dict[str, Any]] = [{}]
    if subject.record.causal is not None:
        options += [{"is_causal": True}]
    if subject.record.masks is not None:
        options += [{"attn_mask": np.arange(s)[None] % 3 > 0}]
    return options


@check(lambda record, backend: record.rows_sum_to_one)
def check_rows_sum_to_one(subject: Subject) -> None:
    """v = 1 gives 1 in each row that sees something."""
    for options in _all_options(subject):
        q, k, v = subject.draw(batch=(2,))
        for dtype in subject.backend.dtypes:
            out = subject(q, k, np.ones_like(v), dtype=dtype, **options)
            tolerance = {"float64": 1e-13, "float32": 2e-6}.get(dtype, 1e-2)
            assert_close(out, np.ones_like(out), rtol=tolerance)


@check(lambda record, backend: not record.rows_sum_to_one)
def check_rows_do_not_sum_to_one(subject: Subject) -> None:
    """There is an input where v = 1 does not give 1, as the record says."""
    worst = max(np.abs(weights.sum(-1) - 1).max() for weights in _many(subject))
    assert worst > 1e-3, f"rows sum to one within {worst:.1e}: the record could say so"


@check(lambda record, backend: record.convex)
def check_convex(subject: Subject) -> None:
    """No weight is negative, so that no output leaves the hull of the values."""
    for options in _all_options(subject):
        for size in (0.5, 4.0):
            weights = _weights(subject, size, **options)
            assert weights.min() >= -1e-14, f"a weight is {weights.min():.1e}"
            assert_close(weights.sum(-1), np.ones(weights.shape[:-1]), rtol=1e-12)


@check(lambda record, backend: not record.convex)
def check_not_convex(subject: Subject) -> None:
    """There is an input whose output leaves the hull of the values: a negative weight, or weights above 1 in sum."""
    weights = _many(subject)
    assert min(w.min() for w in weights) < -1e-6 or max(w.sum(-1).max() for w in weights) > 1 + 1e-6, "convex"


def _permutation_change(subject: Subject, seed: int) -> float:
    q, k, v = subject.draw(seed=seed)
    order = np.random.default_rng(seed).permutation(k.shape[-2])
    options: dict[str, Any] = {}
    permuted = dict(options)
    if subject.record.masks is not None:
        mask = np.arange(k.shape[-2])[None] % 4 > 0
        options, permuted = {"attn_mask": mask}, {"attn_mask": mask[:, order]}
    change = subject(q, k[:, order], v[:, order], **permuted) - subject(q, k, v, **options)
    return float(np.abs(change).max())


@check(lambda record, backend: record.key_permutation and not record.shared_qk)
def check_key_permutation(subject: Subject) -> None:
    """The order of the keys, with their values and masks, does not matter."""
    for seed in range(3):
        change = _permutation_change(subject, seed)
        assert change <= ROUNDING["float64"], f"permuting the keys moved an output by {change:.1e}"


@check(lambda record, backend: not record.key_permutation and not record.shared_qk)
def check_key_permutation_is_denied(subject: Subject) -> None:
    """The order of the keys matters somewhere, as the record says."""
    worst = max(_permutation_change(subject, seed) for seed in range(3))
    assert worst > 1e-6, f"permuting the keys moved outputs by {worst:.1e} only: the record could promise it"


@check(lambda record, backend: not record.linear)
def check_linear_is_denied(subject: Subject) -> None:
    """The weights depend on the values somewhere, as the record says."""
    q, k, v = subject.draw(60, 80)
    change = subject(q, k, np.concatenate([v, 10 * v[..., ::-1, :]], axis=-1))[..., : v.shape[-1]] - subject(q, k, v)
    assert np.abs(change).max() > 1e-6, "other values gave the same weights: the record could promise it"


@check(lambda record, backend: not record.deterministic)
def check_deterministic_is_denied(subject: Subject) -> None:
    """Another seed gives another output, as the record says."""
    arrays = subject.draw(60, 80)
    assert np.abs(subject(*arrays, rng=0) - subject(*arrays, rng=1)).max() > 1e-6, "the seed does not matter"
