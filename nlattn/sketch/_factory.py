"""A sketch by the name of its kind."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from nlattn.arrays.arguments import check_choice
from nlattn.arrays.typing import RngLike
from nlattn.sketch._base import Sketch, SketchKind
from nlattn.sketch._gaussian import gaussian_sketch
from nlattn.sketch._sparse import count_sketch, sparse_sign_sketch
from nlattn.sketch._srht import srht_sketch

__all__ = ["SKETCHES", "SketchKind", "sketch_operator"]

#: Kind -> what draws it.
SKETCHES: dict[SketchKind, Callable[..., Sketch]] = {
    "gaussian": gaussian_sketch,
    "sparse_sign": sparse_sign_sketch,
    "count": count_sketch,
    "balanced_count": partial(count_sketch, balanced=True),
    "srht": srht_sketch,
}


def sketch_operator(kind: SketchKind, m: int, n: int, *, rng: RngLike = None, **options: Any) -> Sketch:
    """A random linear map of the named kind.

    Parameters
    ----------
    kind : {"gaussian", "sparse_sign", "count", "balanced_count", "srht"}
    m, n : int
        Rows and columns.
    rng : None, int, SeedSequence or Generator, default None
    **options
        What the kind takes: `nonzeros` for "sparse_sign".

    Returns
    -------
    Sketch

    Examples
    --------
    >>> import nlattn.sketch
    >>> nlattn.sketch.sketch_operator("sparse_sign", 32, 1000, nonzeros=4, rng=0)
    Sketch('sparse_sign', shape=(32, 1000))
    """
    return SKETCHES[check_choice("kind", kind, get_args(SketchKind))](m, n, rng=rng, **options)
