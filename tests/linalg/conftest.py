"""The fixture `backend` of the numerical core."""

from core_backends import backend

__all__ = ["backend"]
