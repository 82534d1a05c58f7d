"""Matrices that are known by their products."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from spectra import decaying, matrix, rebuilt, relative

from nlattn.linalg import (
    frobenius_norm_bound,
    randomized_svd,
    spectral_norm_bound,
    trace_estimate,
)


@pytest.mark.parametrize("wrap", [scipy.sparse.csr_array, scipy.sparse.linalg.aslinearoperator])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_operators(wrap, dtype):
    a = matrix(90, 60, 0.5 ** np.arange(20), dtype=dtype)
    found, dense = randomized_svd(wrap(a), 5, rng=0), randomized_svd(a, 5, rng=0)
    np.testing.assert_allclose(found.S, dense.S, rtol=1e-6)
    np.testing.assert_allclose(found.error, dense.error, rtol=0.5)
    to_tolerance = randomized_svd(wrap(a), rtol=1e-3, rng=0)
    assert relative(a, rebuilt(to_tolerance)) < 2e-3


def test_own_operator_class():
    class Diagonal:
        shape, dtype = (6, 6), np.float64

        def __matmul__(self, x):
            return np.arange(6.0)[:, None] * x

        def adjoint(self):
            return self

    np.testing.assert_allclose(randomized_svd(Diagonal(), 6, rng=0).S, np.arange(6.0)[::-1], atol=1e-12)


def test_operators_without_declarations():
    class Turned:
        """A map with complex products that declares no dtype."""

        shape = (4, 4)

        def __matmul__(self, x):
            return 1j * x

        @property
        def H(self):
            return Backward()

    class Backward(Turned):
        def __matmul__(self, x):
            return -1j * x

    np.testing.assert_allclose(randomized_svd(Turned(), 4, rng=0).S, np.ones(4))
    Turned.dtype = np.float64
    with pytest.raises(TypeError, match="a must declare a complex dtype, since its products are complex"):
        randomized_svd(Turned(), 2, rng=0)
    one_way = scipy.sparse.linalg.LinearOperator((8, 5), matvec=lambda x: np.ones(8))
    with pytest.raises(TypeError, match="the adjoint of a cannot be multiplied by ndarray"):
        randomized_svd(one_way, 2, rng=0)
    wide = scipy.sparse.linalg.aslinearoperator(np.eye(3, dtype=np.longdouble))
    with pytest.raises(TypeError, match="a must have at most 64 bits a number"):
        randomized_svd(wide, 2, rng=0)


METHODS = ["xtrace", "hutch++", "hutchinson"]


class Opaque:
    """A map that has only a shape and products."""

    def __init__(self, a):
        self.shape, self._a = a.shape, a

    def __matmul__(self, x):
        return self._a @ x


def test_what_has_only_a_shape_and_products():
    a = decaying(12)
    for method in METHODS:
        expected = trace_estimate(a, 6, method=method, rng=1).value
        np.testing.assert_allclose(trace_estimate(Opaque(a), 6, method=method, rng=1).value, expected, rtol=1e-9)
    for function in (spectral_norm_bound, frobenius_norm_bound):
        np.testing.assert_allclose(function(Opaque(a), rng=1).value, function(a, rng=1).value, rtol=1e-12)
