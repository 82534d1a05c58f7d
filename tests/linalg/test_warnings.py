"""Warnings about results that fall short of what was asked for."""

import numpy as np
import pytest

from nlattn.decomp import cp, tucker
from nlattn.errors import ConvergenceWarning
from nlattn.linalg import cur, interpolative_decomposition, lewis_weights, randomized_svd

X = np.random.default_rng(0).standard_normal((9, 8, 7))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: randomized_svd(x[0], 2, rtol=0.1, rng=0),
        lambda x: interpolative_decomposition(x[0], 2, rtol=0.1, rng=0),
        lambda x: cur(x[0], 2, rtol=0.1, rng=0),
        lambda x: lewis_weights(x[0], 30.0, iterations=2),
        lambda x: cp(x, 2, rng=0, iterations=2),
        lambda x: tucker(x, 2, method="hooi", iterations=1, tol=1e-12),
    ],
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_warnings_point_at_the_line_that_called(library, call):
    x = X if library == "numpy" else pytest.importorskip("torch").from_numpy(X)
    with pytest.warns(ConvergenceWarning) as record:
        call(x)
    assert [warning.filename for warning in record] == [__file__]
