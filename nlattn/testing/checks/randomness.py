"""Checks of random numbers: a seed determines the result, no global state is used, and streams are as promised."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from nlattn.testing._suite import Subject, check
from nlattn.testing.checks.refusals import refuses

__all__ = ["check_bad_seeds", "check_global_state", "check_repeatable", "check_seeds", "check_streams"]


@check()
def check_repeatable(subject: Subject) -> None:
    """The same call gives the same bits, also after a call on other data."""
    for dtype in ("float64", "float32"):
        arrays = subject.draw(100, 150, heads=4, heads_kv=2, ev=24)
        first = subject(*arrays, dtype=dtype)
        subject(*subject.draw(300, 30, seed=1), dtype=dtype)
        assert np.array_equal(subject(*arrays, dtype=dtype), first), f"{dtype}: the same call gave other bits"


@check()
def check_global_state(subject: Subject) -> None:
    """No global random state is read or written, also not with rng=None."""
    arrays = subject.draw(60, 80)
    state, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    options: list[dict[str, Any]] = [{}] if subject.record.deterministic else [{"rng": 3}, {"rng": None}]
    for option in options:
        subject(*arrays, **option)
    assert random.getstate() == state, "the state of random was touched"
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(legacy, after, strict=True)), "numpy.random's state was touched"


@check(lambda record, backend: not record.deterministic)
def check_seeds(subject: Subject) -> None:
    """An int, its SeedSequence and a new Generator draw the same; a used Generator goes on; None draws anew."""
    arrays = subject.draw(60, 80)
    makes: list[Callable[[], Any]] = [
        lambda: np.random.SeedSequence(5),
        lambda: np.random.default_rng(5),
        lambda: np.int64(5),
    ]
    wanted = subject(*arrays, rng=5)
    for make in makes:
        assert np.array_equal(subject(*arrays, rng=make()), wanted), f"{make()!r} draws differently from 5"
    generator = np.random.default_rng(5)
    assert np.array_equal(subject(*arrays, rng=generator), wanted), "a fresh Generator draws differently"
    assert not np.array_equal(subject(*arrays, rng=generator), wanted), "a Generator was not advanced"
    assert not np.array_equal(subject(*arrays, rng=None), subject(*arrays, rng=None)), "rng=None is not fresh"


@check(lambda record, backend: not record.deterministic)
def check_streams(subject: Subject) -> None:
    """A call spawns a stream for each batch element and key-value head, and draws nothing from the Generator itself."""
    generator = np.random.default_rng(5)
    before = generator.bit_generator.state
    subject(*subject.draw(60, 80, batch=(3,), heads=4, heads_kv=2), rng=generator)
    spawned = generator.bit_generator.seed_seq.n_children_spawned  # type: ignore[attr-defined]
    assert spawned == 6, f"{spawned} streams were spawned for 3 batch elements and 2 key-value heads"
    assert generator.bit_generator.state == before, "the Generator itself was drawn from"


@check(lambda record, backend: not record.deterministic)
def check_bad_seeds(subject: Subject) -> None:
    """Negative integers and objects that are no seeds are refused by name."""
    arrays = [subject.backend.array(x) for x in subject.draw(60, 80)]
    for wrong in (1.5, True, "0", np.random.RandomState(0)):
        refuses(subject, TypeError, "rng", *arrays, rng=wrong)
    refuses(subject, ValueError, "rng", *arrays, rng=-1)
