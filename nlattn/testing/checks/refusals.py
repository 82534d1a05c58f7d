"""Checks of bad input: which exception is raised, that its sentence names the argument, and that no input changes."""

from typing import Any

import numpy as np

from nlattn.testing._asserts import to_numpy
from nlattn.testing._suite import Subject, check

__all__ = ["check_bad_budgets", "check_bad_shapes", "check_bad_types", "refuses"]


def refuses(subject: Subject, kind: type, words: str | tuple[str, ...], *arrays: Any, **options: Any) -> None:
    """Assert that a call raises an exception with a sentence that contains all `words`, and leaves its arrays alone."""
    before = [np.array(to_numpy(x)) if hasattr(x, "dtype") else x for x in arrays]
    error = None
    try:
        subject.call(*arrays, **options)
    except Exception as caught:
        error = caught
    assert error is not None, f"nothing was raised, expected {kind} with {words!r}"
    assert isinstance(error, kind), f"expected {kind}, got {type(error).__name__}: {error}"
    for word in (words,) if isinstance(words, str) else words:
        assert word in str(error), f"the sentence lacks {word!r}: {error}"
    for old, new in zip(before, arrays, strict=True):
        if hasattr(new, "dtype"):
            assert np.array_equal(old, to_numpy(new), equal_nan=old.dtype.kind == "f"), "an input was written to"


def _arrays(subject: Subject) -> list[Any]:
    return [subject.backend.array(x) for x in subject.draw()]


@check()
def check_bad_types(subject: Subject) -> None:
    """Lists, integers, complex numbers, mixed dtypes, odd masks and odd scales raise a TypeError that names them."""
    names = ("query", "key", "value")
    for i, name in enumerate(names):
        arrays = _arrays(subject)
        for wrong in (to_numpy(arrays[i]).tolist(), None, 1.0, "abc"):
            refuses(subject, TypeError, name, *arrays[:i], wrong, *arrays[i + 1 :])
        for dtype in ("int64", "complex128", "bool"):
            wrong = subject.backend.array(np.ones(arrays[i].shape), dtype)
            refuses(subject, TypeError, name, *arrays[:i], wrong, *arrays[i + 1 :])
        wrong = subject.backend.array(to_numpy(arrays[i]), "float32")
        refuses(subject, TypeError, name, *arrays[:i], wrong, *arrays[i + 1 :])
    arrays = _arrays(subject)
    for scale in ("0.5", 1j, [1.0]):
        refuses(subject, TypeError, "scale", *arrays, scale=scale)
    for bad in (float("nan"), float("inf")):
        refuses(subject, ValueError, "scale", *arrays, scale=bad)
    if subject.record.masks is not None:
        refuses(subject, TypeError, "attn_mask", *arrays, attn_mask=[[True] * arrays[1].shape[-2]])
        integers = subject.backend.array(np.ones((1, arrays[1].shape[-2])), "int64")
        refuses(subject, TypeError, "attn_mask", *arrays, attn_mask=integers)


@check()
def check_bad_shapes(subject: Subject) -> None:
    """Shapes that do not fit raise a ValueError that names the argument."""
    array = subject.backend.array
    q, k, v = subject.draw(heads=4)

    def refuse(words: str, *arrays: np.ndarray, **options: Any) -> None:
        refuses(subject, ValueError, words, *(array(x) for x in arrays), **options)

    refuse("query", q[0, 0], k, v)
    refuse("query", q, k[..., :-1], v)
    refuse("value", q, k, v[:, :-1])
    refuse("value", q, k, v[:2])
    refuse("heads", q, k[:3], v[:3])
    refuse("heads", q[0], k, v)
    refuse("leading axes", np.stack([q, q]), np.stack([k, k, k]), np.stack([v, v, v]))
    refuse("feature", q[..., :0], k[..., :0], v)
    if subject.record.masks is not None:
        s = k.shape[-2]
        for shape in ((1, s + 1), (3, 1, s), (2, 4, 1, s)):
            refuse("attn_mask", q, k, v, attn_mask=array(np.ones(shape, dtype=bool)))
        for bad in (np.nan, np.inf):
            bias = np.zeros((1, s))
            bias[0, 2] = bad
            refuse("attn_mask", q, k, v, attn_mask=array(bias))


@check(lambda record, backend: bool(record.budgets))
def check_bad_budgets(subject: Subject) -> None:
    """Budgets below their least value, and what is no integer, are refused by name; NumPy integers are integers."""
    arrays = _arrays(subject)
    for budget in subject.record.budgets:
        refuses(subject, ValueError, budget.name, *arrays, **{budget.name: -1})
        for wrong in (2.5, True, "64", None, np.float64(2.0), np.array([1, 2])):
            refuses(subject, TypeError, budget.name, *arrays, **{budget.name: wrong})
        subject.call(*arrays, **{budget.name: np.int64(2)})
    first = subject.record.budgets[0].name
    refuses(subject, ValueError, first, *arrays, **{first: 0})
