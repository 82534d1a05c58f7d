"""One quick test of everything, to be run first: ``python -m pytest -m smoke``."""

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention

pytestmark = pytest.mark.smoke


def draw(length=40, s=60, e=8):
    rng = np.random.default_rng(0)
    return (rng.standard_normal((2, n, e)) for n in (length, s, s))


def test_exact_attention_on_compiled_kernels():
    q, k, v = draw()
    for options in ({}, {"is_causal": True}):
        np.testing.assert_allclose(nlattn.exact_attention(q, k, v, **options), dense_attention(q, k, v, **options).out)


@pytest.mark.parametrize("record", nlattn.METHODS.values(), ids=lambda record: record.name)
def test_every_method_approximates(record):
    q, k, v = draw()
    small = {budget.name: min(16, budget.ladder[0]) for budget in record.budgets}
    with nlattn.use_backend("generic"):
        out = nlattn.run(record.method(**small), q, k, v, rng=0)
    assert out.shape == (2, 40, 8)
    assert np.all(np.isfinite(out))


def test_an_error_and_a_tolerance():
    q, k, v = nlattn.datasets.load("minilm")[:3]
    q, k, v = q[:2], k[:2], v[:2]
    found = nlattn.certify(nlattn.nystrom_attention(q, k, v), q, k, v, rows=64, rng=0).pooled
    assert found.error < found.baseline
    assert nlattn.attention(q, k, v, rtol=0.1).error == 0


def test_the_core():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 6)) @ rng.standard_normal((6, 30))
    assert nlattn.randomized_svd(a, 6, rng=0)[1].size == 6
    assert nlattn.kmeans(a, 4, rng=0).centres.shape == (4, 30)
    assert nlattn.tucker(a.reshape(8, 5, 30), rng=0, rtol=0.1).error <= 0.1
    assert nlattn.sketch_operator("gaussian", 12, 40, rng=0).shape == (12, 40)


@pytest.mark.parametrize("id", ["dropped_mass", "nystrom_nuclear", "hyperplane_collision"])
def test_some_bounds(id):
    assert nlattn.bounds.check(id, trials=10).holds
