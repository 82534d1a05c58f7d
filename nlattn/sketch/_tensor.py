"""TensorSketch: random features of the polynomial kernel."""

from typing import get_args

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.random import generator, random_signs
from nlattn.arrays.typing import Array, RngLike
from nlattn.sketch._convolution import Convolution, Route
from nlattn.sketch._rowwise import input_scale, on_rows

__all__ = ["TensorSketch"]


@carrier()
class TensorSketch:
    """Random features whose inner products are unbiased for the polynomial kernel (gamma x.y + coef0)^degree.

    Parameters
    ----------
    d : int
        Length of the inputs, at least 1.
    m : int
        Number of features, at least 1; it need not be a power of two, nor even.
    degree : int, default 2
        At least 1.
    gamma : float, default 1.0
        Above 0.
    coef0 : float, default 0.0
        At least 0.
    rng : None, int, SeedSequence or Generator, default None
        For the hashes, which are drawn once, on the host.

    Attributes
    ----------
    d, m, degree, gamma, coef0

    Notes
    -----
    The circular convolution of `degree` CountSketches of x, which is a CountSketch of its tensor power, by two routes
    that agree to rounding: hashing and FFTs, O(degree (d + m log m)) per vector; or products with the Fourier
    transforms of the hashes, 2 degree d m flops without a scatter, which is faster for d up to some hundreds. The
    features are the convolution in a real Fourier basis, which is orthonormal: inner products are the usual ones.

    An estimate of the kernel can be negative. For unit vectors x = y its variance is up to 2 (2^degree - 1) / m, and a
    little more for small m; beyond degree 3 `PolynomialSketch` needs fewer features.

    Source: Pham and Pagh, DOI 10.1145/2487575.2487591.
    Bounds: ``tensor_sketch_variance``, ``tensor_sketch_kernel_error``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> x = np.random.default_rng(0).standard_normal((100, 8))
    >>> sketch = nlattn.sketch.TensorSketch(8, 4000, degree=2, coef0=1.0, rng=1)
    >>> phi, exact = sketch.apply(x), (x @ x.T + 1) ** 2
    >>> bool(np.linalg.norm(phi @ phi.T - exact) < 0.1 * np.linalg.norm(exact))
    True
    """

    def __init__(
        self, d: int, m: int, degree: int = 2, *, gamma: float = 1.0, coef0: float = 0.0, rng: RngLike = None
    ) -> None:
        self.d = check_integer("d", d)
        self.m = check_integer("m", m)
        self.degree = check_integer("degree", degree)
        self.gamma = check_number("gamma", gamma, above=0)
        self.coef0 = check_number("coef0", coef0, least=0)
        random = generator(rng)
        scale = input_scale(self.d, self.gamma, self.coef0)
        rows = random.integers(0, self.m, (self.degree, scale.size))
        signs = random_signs(random, (self.degree, scale.size))
        self._convolution = Convolution(self.m, rows, signs * scale)

    @on_numpy
    def apply(self, x: Array, *, method: Route = "auto", check_finite: bool = True) -> Array:
        """The features of each vector.

        Parameters
        ----------
        x : array, shape (..., d)
            Real; integers are taken as float64, float16 and bfloat16 as float32.
        method : {"auto", "fft", "gemm"}, default "auto"
            The route; "auto" takes the faster one for the size.
        check_finite : bool, default True
            Refuse NaN and inf, and features that overflow.

        Returns
        -------
        array, shape (..., m)
        """
        check_choice("method", method, get_args(Route))
        return on_rows(
            x,
            self.d,
            self.m,
            lambda rows: self._convolution([rows] * self.degree, method),
            constant=self.coef0 > 0,
            check_finite=check_finite,
        )

    def __repr__(self) -> str:
        return f"TensorSketch({self.d}, {self.m}, {self.degree}, gamma={self.gamma:g}, coef0={self.coef0:g})"
