"""The array libraries and kernels on which the numerical core is tested.

Tensors whose gradient is not wanted are lent to NumPy (``tests/arrays`` compares the bits), so that here they are kept:
what the tests then see is the generic code on PyTorch, which runs for gradients, for traced tensors and on a GPU.
"""

from dataclasses import replace

import pytest

from nlattn.arrays.boundary import keep_tensors
from nlattn.testing import BACKENDS

__all__ = ["backend"]

KEPT = {"torch-cpu": replace(BACKENDS["torch-cpu"], name="torch-generic", context=keep_tensors)}
AVAILABLE = [KEPT.get(name, backend) for name, backend in BACKENDS.items() if backend.unavailable() is None]


@pytest.fixture(params=AVAILABLE, ids=str)
def backend(request):
    """Every backend that is available, each in its context."""
    with request.param.context():
        yield request.param
