"""Queries and keys with extra coordinates."""

import numpy as np
import pytest

from nlattn.cluster import augment_for_inner_products
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["xbox", "xbox+", "simple"])
def test_augmentation(backend, dtype, kind):
    q, k = rng.standard_normal((2, 9, 5)).astype(dtype), (3 * rng.standard_normal((2, 40, 5))).astype(dtype)
    q[0, 0], k[1, 3] = 0, 0
    a, b = augment_for_inner_products(backend.array(q), backend.array(k), kind=kind)
    assert_same_kind(a, backend.array(q))
    a, b, q, k = (
        backend.to_numpy(p).astype(float) if not isinstance(p, np.ndarray) else p.astype(float) for p in (a, b, q, k)
    )
    tight = {"float64": 1e-12, "float32": 3e-5}[dtype]
    products = q @ np.swapaxes(k, 1, 2)
    q_norm, k_norm = (np.linalg.norm(p, axis=-1) for p in (q, k))
    Q, K = q_norm.max(axis=-1), k_norm.max(axis=-1)
    distances = np.sum((a[:, :, None] - b[:, None]) ** 2, axis=-1)
    if kind == "xbox":
        assert_close(a @ np.swapaxes(b, 1, 2), products, rtol=tight, atol=100 * tight)
        assert_close(np.linalg.norm(b, axis=-1), np.broadcast_to(K[:, None], k_norm.shape), rtol=tight)
        assert_close(distances, (q_norm**2 + K[:, None] ** 2)[:, :, None] - 2 * products, rtol=tight, atol=300 * tight)
    elif kind == "xbox+":
        assert_close(a @ np.swapaxes(b, 1, 2), products, rtol=tight, atol=100 * tight)
        total = (Q**2 + K**2)[:, None]
        for p in (a, b):
            assert_close(np.sum(p**2, axis=-1), np.broadcast_to(total, p.shape[:2]), rtol=tight)
        assert_close(distances, 2 * total[..., None] - 2 * products, rtol=tight, atol=300 * tight)
    else:
        assert_close(np.linalg.norm(b, axis=-1), np.ones_like(k_norm), rtol=tight)
        assert_close(np.linalg.norm(a, axis=-1), 1.0 * (q_norm > 0), rtol=tight)
        cosines = products / np.where(q_norm > 0, q_norm, 1)[..., None] / K[:, None, None]
        assert_close(a @ np.swapaxes(b, 1, 2), cosines, rtol=tight, atol=tight)


@pytest.mark.parametrize("kind", ["xbox", "xbox+", "simple"])
def test_augmentation_at_the_edge(kind):
    """Rounding does not make a root of a negative number, and nothing divides by 0."""
    for seed in range(20):
        k = np.random.default_rng(seed).standard_normal((7, 3)).astype(np.float32)
        for keys in (k, k[:1], np.repeat(k[:1], 3, axis=0), 0 * k, k[:0]):
            for query in (k, 0 * k, k[:0]):
                a, b = augment_for_inner_products(query, keys, kind=kind)
                assert np.isfinite(a).all()
                assert np.isfinite(b).all()
                assert b.shape == (len(keys), 5 if kind == "xbox+" else 4)
    pole = augment_for_inner_products(k, 0 * k, kind="simple")[1]
    assert np.array_equal(pole, np.tile([0, 0, 0, 1], (7, 1)))
    with pytest.raises(ValueError, match=r"kind must be one of 'xbox', 'xbox\+', 'simple', got 'box'"):
        augment_for_inner_products(k, k, kind="box")
