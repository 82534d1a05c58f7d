"""Kernels know nothing of the boundary for PyTorch, so that one way to call them with tensors is enough."""

import pytest

from nlattn.testing import BACKENDS


@pytest.fixture(params=[backend for backend in BACKENDS.values() if backend.name != "torch-generic"], ids=str)
def backend(request):
    reason = request.param.unavailable()
    if reason is not None:
        pytest.skip(reason)
    with request.param.context():
        yield request.param
