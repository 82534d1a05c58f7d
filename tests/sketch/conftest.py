"""The fixtures of the numerical core."""

from core_backends import backend, numpy_backend

__all__ = ["backend", "numpy_backend"]
