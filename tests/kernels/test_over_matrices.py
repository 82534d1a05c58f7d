"""The same computation for many matrices, on every backend."""

import numpy as np
import pytest
from array_api_compat import array_namespace
from kernel_calls import call_on

from nlattn.kernels.over_matrices import over_matrices
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


@pytest.mark.parametrize("lead", [(2, 3), (1, 1), (0, 3)])
def test_results_of_any_rank_in_their_places(backend, lead):
    """One matrix at a time or all at once."""
    a, b = rng.standard_normal((*lead, 4, 4)), rng.standard_normal((*lead, 4, 2))

    def function(a, b):
        xp = array_namespace(a)
        return a @ b, xp.sum(a, axis=-1), xp.argmax(xp.sum(b, axis=-1), axis=-1)

    product, sums, index = call_on(backend, over_matrices, a, b, function=function)
    assert_close(product, a @ b, rtol=1e-12, atol=1e-14)
    assert_close(sums, a.sum(-1), rtol=1e-12, atol=1e-14)
    assert np.array_equal(index, b.sum(-1).argmax(-1))


def test_errors_reach_the_caller(backend):
    def function(a):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        over_matrices(backend.array(np.ones((2, 3, 4, 4))), function=function)
