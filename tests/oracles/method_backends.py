"""What the tests of methods, and of what they are made of, share.

By default they run on compiled kernels and on generic code with arrays that are held to the standard most strictly.
Other arrays go through the same code: with them the tests are slow ones, and by default the conformance suite compares
what they give with NumPy.
"""

import pytest
from threadpoolctl import threadpool_limits

from nlattn.testing import BACKENDS

__all__ = ["available", "backend", "one_blas_thread"]


def available(*by_default):
    """The backends that are here as parameters; all but those named are slow."""
    return [
        pytest.param(backend, id=name, marks=() if name in by_default else pytest.mark.slow)
        for name, backend in BACKENDS.items()
        if backend.unavailable() is None
    ]


@pytest.fixture(params=available("numpy-numba", "array-api-strict"))
def backend(request):
    """Every backend that is available, each in its context."""
    with request.param.context():
        yield request.param


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """Threads do not pay for the small products of dense formulas: they use the cores to wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield
