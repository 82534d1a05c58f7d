"""Tools for testing attention methods: assertions, an oracle, and the conformance suite."""

from nlattn.testing._asserts import assert_close, assert_same_kind, to_numpy
from nlattn.testing._backends import BACKENDS, Backend
from nlattn.testing._conformance import CHECKS, cases
from nlattn.testing._oracle import DenseAttention, dense_attention
from nlattn.testing._suite import Check, Subject, check

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
