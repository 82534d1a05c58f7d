"""The backends on which multipole attention is tested."""

import pytest
from method_backends import available


@pytest.fixture(params=available("numpy-numba", "numpy-generic"))
def backend(request):
    """Compiled and generic kernels. On strict arrays, where the latter take seconds, the conformance suite runs."""
    with request.param.context():
        yield request.param
