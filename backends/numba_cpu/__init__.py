"""Kernels for NumPy arrays, compiled with numba and run on one shared pool of threads."""

import numba  # noqa: F401  (its absence is what makes this backend unavailable)
