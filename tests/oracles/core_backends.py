"""The array libraries and kernels on which the numerical core is tested.

Tensors whose gradient is not wanted are lent to NumPy, and ``tests/arrays`` compares the bits. Here they are kept: what
the tests then see is the generic code on PyTorch, which runs for gradients, for traced tensors and on a GPU.
"""

import pytest

from nlattn.testing import BACKENDS

__all__ = ["backend", "numpy_backend"]

AVAILABLE = [backend for name, backend in BACKENDS.items() if name != "torch-cpu" and backend.unavailable() is None]


@pytest.fixture(params=AVAILABLE, ids=str)
def backend(request):
    """Every backend that is available, each in its context."""
    with request.param.context():
        yield request.param


@pytest.fixture(params=[backend for backend in AVAILABLE if backend.library == "numpy"], ids=str)
def numpy_backend(request):
    """NumPy arrays with compiled and with generic kernels: for what does not depend on the array library."""
    with request.param.context():
        yield request.param
