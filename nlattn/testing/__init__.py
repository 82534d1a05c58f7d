"""Tools for testing attention methods: assertions, an oracle, and the conformance suite."""

from nlattn.testing.asserts import assert_close, assert_same_kind, to_numpy
from nlattn.testing.backends import BACKENDS, Backend
from nlattn.testing.conformance import CHECKS, cases
from nlattn.testing.oracle import DenseAttention, dense_attention
from nlattn.testing.suite import Check, Subject, check

__all__ = [
    "BACKENDS",
    "CHECKS",
    "Backend",
    "Check",
    "DenseAttention",
    "Subject",
    "assert_close",
    "assert_same_kind",
    "cases",
    "check",
    "dense_attention",
    "to_numpy",
]
