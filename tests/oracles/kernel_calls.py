"""Kernels called with NumPy arrays on any backend."""

import numpy as np

from nlattn.testing import to_numpy

#: What tells a backend's own code apart from code that it shares: the libraries that only run the generic versions
#: get the first case of a list, NumPy all.
GENERIC_ONLY = ("array-api-strict", "torch-cpu", "cupy")


def cases_for(backend, cases):
    return cases[:1] if backend.name in GENERIC_ONLY else cases


def call_on(backend, kernel, *arrays, **options):
    """The results as NumPy arrays; arrays may lie in tuples, lists and NamedTuples."""
    result = kernel(
        *(_converted(backend, x) for x in arrays), **{n: _converted(backend, x) for n, x in options.items()}
    )
    return [to_numpy(x) for x in result] if isinstance(result, tuple) else to_numpy(result)


def _converted(backend, x):
    if isinstance(x, np.ndarray):
        return backend.array(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_converted(backend, y) for y in x))
    return type(x)(_converted(backend, y) for y in x) if isinstance(x, tuple | list) else x
