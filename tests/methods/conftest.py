"""The fixtures of methods and what they are made of."""

from method_backends import backend, one_blas_thread

__all__ = ["backend", "one_blas_thread"]
