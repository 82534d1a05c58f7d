"""Places that are drawn among valid keys, and their log-weights."""

import numpy as np
import pytest
import scipy.stats

from nlattn.select.sampled_keys import sample_places
from nlattn.testing import to_numpy


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_places(backend, weighted):
    rng = np.random.default_rng(1)
    count = np.asarray([[7, 3, 0]])
    weights = rng.random((1, 3, 7)) + 0.1 if weighted else np.ones((1, 3, 7))
    m = 20000
    place, log_weight = (
        to_numpy(x)
        for x in sample_places(
            backend.array(rng.random((1, 3, m))),
            backend.array(count, "int64"),
            backend.array(weights) if weighted else None,
        )
    )
    for k in range(2):
        p = weights[0, k, : count[0, k]] / weights[0, k, : count[0, k]].sum()
        np.testing.assert_allclose(np.exp(log_weight[0, k]) * m * p[place[0, k]], 1, rtol=1e-12)
        counts = np.bincount(place[0, k], minlength=len(p))
        assert scipy.stats.chisquare(counts, m * p).pvalue > 1e-4
