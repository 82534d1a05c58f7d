"""Checks of the weights that a method gives to the values: their sum, their sign, and what they depend on."""

from collections.abc import Iterator
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


def _weights(subject: Subject, size: float = 1.0, seed: int = 0, **options: Any) -> np.ndarray:
    """The weights (heads, L, S), which are the output for v = I, with queries and keys of a given size."""
    q, k, v = subject.draw(seed=seed)
    eye = np.broadcast_to(np.eye(v.shape[-2]), (*v.shape[:-1], v.shape[-2]))
    return np.asarray(subject(size * q, size * k, eye, **options))


def _many(subject: Subject) -> Iterator[np.ndarray]:
    """The weights for several inputs, from flat to peaked."""
    return (_weights(subject, size, seed) for size in (0.5, 1.0, 2.0, 4.0) for seed in range(3))


def _all_options(subject: Subject) -> list[dict[str, Any]]:
    """No option, causality, and a key mask, as far as the record allows."""
    s = subject.draw()[1].shape[-2]
    options: list[dict[str, Any]] = [{}]
    if subject.record.causal is not None:
        options += [{"is_causal": True}]
    if subject.record.masks is not None:
        options += [{"attn_mask": np.arange(s)[None] % 3 > 0}]
    return options


@check(lambda record, backend: record.rows_sum_to_one)
def check_rows_sum_to_one(subject: Subject) -> None:
    """Values of 1 give 1 in each row that sees something."""
    for options in _all_options(subject):
        q, k, v = subject.draw(batch=(2,))
        for dtype in subject.backend.dtypes:
            out = subject(q, k, np.ones_like(v), dtype=dtype, **options)
            tolerance = {"float64": 1e-13, "float32": 2e-6}.get(dtype, 1e-2)
            assert_close(out, np.ones_like(out), rtol=tolerance)


@check(lambda record, backend: not record.rows_sum_to_one)
def check_rows_do_not_sum_to_one(subject: Subject) -> None:
    """For some input, values of 1 do not give 1, as the record says."""
    found = any(np.abs(weights.sum(-1) - 1).max() > 1e-3 for weights in _many(subject))
    assert found, "rows sum to one for all inputs: the record could say so"


@check(lambda record, backend: record.convex)
def check_convex(subject: Subject) -> None:
    """No weight is negative, and they sum to 1, so that no output leaves the hull of the values."""
    for options in _all_options(subject):
        for size in (0.5, 4.0):
            weights = _weights(subject, size, **options)
            assert weights.min() >= -1e-14, f"a weight is {weights.min():.1e}"
            assert_close(weights.sum(-1), np.ones(weights.shape[:-1]), rtol=1e-12)


@check(lambda record, backend: not record.convex)
def check_not_convex(subject: Subject) -> None:
    """For some input the output leaves the hull of the values: a weight is negative, or the sum of weights above 1."""
    found = any(weights.min() < -1e-6 or weights.sum(-1).max() > 1 + 1e-6 for weights in _many(subject))
    assert found, "the output stays in the hull for all inputs: the record could say so"


def _permutation_change(subject: Subject, seed: int) -> float:
    """The largest change of an output when keys, values and masks are permuted together."""
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
    """The order of the keys does not matter if values and masks are permuted with them."""
    for seed in range(3):
        change = _permutation_change(subject, seed)
        assert change <= ROUNDING["float64"], f"permuting the keys moved an output by {change:.1e}"


@check(lambda record, backend: not record.key_permutation and not record.shared_qk)
def check_key_permutation_is_denied(subject: Subject) -> None:
    """The order of the keys matters for some input, as the record says."""
    found = any(_permutation_change(subject, seed) > 1e-6 for seed in range(3))
    assert found, "no permutation of the keys was found to matter: the record could promise it"


@check(lambda record, backend: not record.linear)
def check_linear_is_denied(subject: Subject) -> None:
    """The weights depend on the values for some input, as the record says."""
    q, k, v = subject.draw(60, 80)
    change = subject(q, k, np.concatenate([v, 10 * v[..., ::-1, :]], axis=-1))[..., : v.shape[-1]] - subject(q, k, v)
    assert np.abs(change).max() > 1e-6, "other values gave the same weights: the record could promise that"


@check(lambda record, backend: not record.deterministic)
def check_deterministic_is_denied(subject: Subject) -> None:
    """Another seed gives another output, as the record says."""
    arrays = subject.draw(60, 80)
    assert np.abs(subject(*arrays, rng=0) - subject(*arrays, rng=1)).max() > 1e-6, "the seed does not matter"
