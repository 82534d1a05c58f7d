"""Checks of derivatives on PyTorch."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from nlattn.methods.record import Record
from nlattn.problem.partials import Partial, merge_partials
from nlattn.testing._backends import Backend
from nlattn.testing._suite import Subject, check

__all__ = ["check_gradients", "check_gradients_of_partials"]


def _on_torch(record: Record, backend: Backend) -> bool:
    return backend.library == "torch" and record.differentiable


def _tiny(subject: Subject, length: int = 5, s: int = 6) -> list[Any]:
    arrays = subject.draw(length, s, batch=(2,), heads=2, heads_kv=1, e=3, ev=2)
    return [subject.backend.array(x).requires_grad_() for x in arrays]


def _check(function: Callable[..., Any], arrays: list[Any], what: str) -> None:
    """Assert that the gradients of a function of query, key and value are finite and right."""
    torch: Any = importlib.import_module("torch")
    grads = torch.autograd.grad(function(*arrays).square().sum(), arrays)
    for name, grad in zip(("query", "key", "value"), grads, strict=True):
        assert bool(torch.isfinite(grad).all()), f"{what}: the gradient of {name} is not finite"
    try:
        # The fast mode compares the derivatives along one random direction for each array. Its atol is for one entry,
        # and PyTorch scales it up.
        torch.autograd.gradcheck(
            function, arrays, eps=1e-6, atol=1e-8, rtol=1e-4, fast_mode=True, check_undefined_grad=False
        )
    except importlib.import_module("torch.autograd.gradcheck").GradcheckError as error:
        raise AssertionError(f"{what}: {error}") from error


@check(_on_torch)
def check_gradients(subject: Subject) -> None:
    """Gradients are right, and they are 0 and not NaN where a row may attend to nothing."""
    record, s = subject.record, 6 if subject.record.cross_length else 5
    few = subject.budgets(most=3) | {b.name: 1 for b in record.budgets[1:] if b.unit == "keys"}
    cases: dict[str, dict[str, Any]] = {"no mask": {}}
    if record.causal is not None:
        cases["causal"] = {"is_causal": True}
    if record.masks is not None:
        keys = np.zeros((2, 1, 1, s), dtype=bool)
        keys[0, ..., [1, 4]] = True  # fewer keys than landmarks in the first batch element, and none in the second
        cases |= {"key mask": {"attn_mask": keys}, "log-weights": {"attn_mask": np.where(keys, 0.3, -np.inf)}}
    if record.masks == "any":
        mask = np.ones((5, s), dtype=bool)
        mask[2], mask[1, 3] = False, False
        cases |= {"mask": {"attn_mask": mask}, "bias": {"attn_mask": np.where(mask, 0.3, -np.inf)}}
    for what, options in cases.items():
        if "attn_mask" in options:
            options["attn_mask"] = subject.backend.array(options["attn_mask"])
        _check(functools.partial(subject.call, **few, **options), _tiny(subject), what)


@check(lambda record, backend: _on_torch(record, backend) and record.partial and record.masks is not None)
def check_gradients_of_partials(subject: Subject) -> None:
    """Gradients through log-sum-exps and `merge_partials` are right, also in rows where some or all parts are empty."""
    torch: Any = importlib.import_module("torch")
    options: dict[str, Any] = {"return_lse": True} | subject.budgets(most=2)
    left = torch.tensor(np.array([[True] * 3] * 5))
    left[2] = left[4] = False
    right = torch.tensor(np.array([[True, False, True]] * 5))
    right[2] = right[3] = False
    if subject.record.masks != "any":
        left, right = left[:1], right[2:3]

    def merged(q: Any, k: Any, v: Any) -> Any:
        first = subject.call(q, k[..., :3, :], v[..., :3, :], attn_mask=left, **options)
        second = subject.call(q, k[..., 3:, :], v[..., 3:, :], attn_mask=right, **options)
        out, lse = merge_partials(Partial(*first), Partial(*second))
        seen = torch.isfinite(lse)
        return torch.cat([torch.flatten(out), torch.where(seen, lse, torch.zeros_like(lse)).flatten()])

    _check(merged, _tiny(subject), "merged")
