"""The recursive polynomial sketch."""

import math
from typing import Literal, get_args

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.random import generator, moved, random_signs
from nlattn.arrays.typing import Array, RngLike
from nlattn.sketch._convolution import Convolution
from nlattn.sketch._gaussian import gaussian_sketch
from nlattn.sketch._hadamard import padded_length
from nlattn.sketch._rowwise import input_scale, on_rows, symmetric_square
from nlattn.sketch._srht import srht_sketch

__all__ = ["PolynomialSketch"]

Kind = Literal["gaussian", "srht", "tensor_sketch"]


@carrier()
class PolynomialSketch:
    """Random features of (gamma x.y + coef0)^degree by a binary tree of sketches of degree 2.

    Parameters
    ----------
    d : int
        Length of the inputs, at least 1.
    r : int
        Length of the vectors in the tree, at least 1.
    degree : int
        At least 1; with `nonnegative` even.
    kind : {"gaussian", "srht", "tensor_sketch"}, default "gaussian"
        The node that joins u and w into r numbers: ``sqrt(r) (S u) * (T w)`` with independent Gaussian sketches or
        SRHTs, or the convolution of two CountSketches. "srht" needs r to be at most d, rounded up to a power of two.
    nonnegative : bool, default False
        Square the inner products of a sketch of half the degree, by features that are the products of all pairs: no
        estimate is negative but for rounding, and each is too large, in the mean by the variance of its square root.
    gamma : float, default 1.0
        Above 0.
    coef0 : float, default 0.0
        At least 0.
    rng : None, int, SeedSequence or Generator, default None
        Draws are made once, on the host.

    Attributes
    ----------
    d, r, degree, kind, nonnegative, gamma, coef0
    m : int
        Number of features: r, or r (r + 1) / 2 with `nonnegative`. Degree 1 (2 with `nonnegative`) has no nodes: the
        features are exact and their number follows from d.

    Notes
    -----
    For unit vectors x = y the variance is about 8 (degree - 1) / r for Gaussian nodes, linear in the degree, where
    that of a `TensorSketch` is up to 2^(degree + 1) / m. A degree that is not a power of two is split as evenly as
    possible at each node, with less variance than by padding it. Cost: 2 degree r (d + r) flops a vector.

    Source: Ahle et al., arXiv 1909.01410; with `nonnegative`, Kacham, Mirrokni and Zhong, arXiv 2310.01655.
    Bounds: ``polynomial_sketch_variance``, ``self_tensored_mean``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> x = np.random.default_rng(0).standard_normal((50, 8)) / 8 ** 0.5
    >>> sketch = nlattn.sketch.PolynomialSketch(8, 32, 4, nonnegative=True, rng=0)
    >>> phi, root = sketch.apply(x), sketch.half(x)
    >>> phi.shape, root.shape, np.allclose(phi @ phi.T, (root @ root.T) ** 2)
    ((50, 528), (50, 32), True)
    """

    def __init__(
        self,
        d: int,
        r: int,
        degree: int,
        *,
        kind: Kind = "gaussian",
        nonnegative: bool = False,
        gamma: float = 1.0,
        coef0: float = 0.0,
        rng: RngLike = None,
    ) -> None:
        self.d = check_integer("d", d)
        self.r = check_integer("r", r)
        self.degree = check_integer("degree", degree)
        self.kind = check_choice("kind", kind, get_args(Kind))
        self.nonnegative = bool(nonnegative)
        self.gamma = check_number("gamma", gamma, above=0)
        self.coef0 = check_number("coef0", coef0, least=0)
        if self.nonnegative and self.degree % 2:
            raise ValueError(f"degree must be even for nonnegative=True, got {self.degree}")
        self._scale = input_scale(self.d, self.gamma, self.coef0)
        if kind == "srht" and self.r > padded_length(self._scale.size):
            raise ValueError(
                f"r must be at most {padded_length(self._scale.size)}, the length of the inputs rounded up to a power "
                f"of two, for kind 'srht', got {self.r}; use another kind"
            )
        half = self.degree // 2 if self.nonnegative else self.degree
        self._tree = _Node(half, self._scale.size, self.r, self.kind, generator(rng))
        self._size = self._scale.size if half == 1 else self.r
        self.m = self._size * (self._size + 1) // 2 if self.nonnegative else self._size

    @on_numpy
    def apply(self, x: Array, *, check_finite: bool = True) -> Array:
        """The features of each vector.

        Parameters
        ----------
        x : array, shape (..., d)
            Real; integers are taken as float64, float16 and bfloat16 as float32.
        check_finite : bool, default True
            Refuse NaN and inf, and features that overflow.

        Returns
        -------
        array, shape (..., m)
        """
        return self._apply(x, self.m, self.nonnegative, check_finite)

    @on_numpy
    def half(self, x: Array, *, check_finite: bool = True) -> Array:
        """Few features in place of many: for `nonnegative`, those whose inner products are to be squared.

        Parameters
        ----------
        x : array, shape (..., d)
        check_finite : bool, default True

        Returns
        -------
        array, shape (..., r)
            For degree 2 as many as the inputs are long. Their squared inner products, never negative, are the inner
            products of `apply` to rounding.
        """
        if not self.nonnegative:
            raise ValueError("half needs a sketch made with nonnegative=True; use apply")
        return self._apply(x, self._size, False, check_finite)

    def _apply(self, x: Array, m: int, square: bool, check_finite: bool) -> Array:
        def compute(rows: Array) -> Array:
            xp = array_namespace(rows)
            y = self._tree(rows * moved(self._scale, rows, rows.dtype))
            return symmetric_square(xp, y) if square else y

        return on_rows(x, self.d, m, compute, constant=self.coef0 > 0, check_finite=check_finite)

    def __repr__(self) -> str:
        return (
            f"PolynomialSketch({self.d}, {self.r}, {self.degree}, kind={self.kind!r}, nonnegative={self.nonnegative}, "
            f"gamma={self.gamma:g}, coef0={self.coef0:g})"
        )


class _Node:
    """x (N, d) -> a sketch of its tensor power, joined from two of half the degree; x itself for degree 1."""

    def __init__(self, degree: int, d: int, r: int, kind: Kind, rng: np.random.Generator) -> None:
        self.degree = degree
        self.r = r
        if degree == 1:
            return
        halves = degree - degree // 2, degree // 2
        self.left, self.right = (_Node(half, d, r, kind, rng) for half in halves)
        sizes = [d if half == 1 else r for half in halves]
        self.convolution: Convolution | None = None
        if kind == "tensor_sketch":
            rows = [rng.integers(0, r, size) for size in sizes]
            signs = [random_signs(rng, size) for size in sizes]
            self.convolution = Convolution(r, rows, signs)
        else:
            draw = gaussian_sketch if kind == "gaussian" else srht_sketch
            self.first, self.second = (draw(r, size, rng=rng) for size in sizes)

    def __call__(self, x: Array) -> Array:
        if self.degree == 1:
            return x
        u, w = self.left(x), self.right(x)
        if self.convolution is not None:
            return self.convolution([u, w], "auto")
        u, w = self.first.apply(u, 1, check_finite=False), self.second.apply(w, 1, check_finite=False)
        return math.sqrt(self.r) * u * w
