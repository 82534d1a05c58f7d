"""Check of the rows that a method computes on their own, before all of them are paid for."""

from typing import Any

import numpy as np

from nlattn.methods.registry import Method
from nlattn.problem.arguments import prepare
from nlattn.testing.asserts import assert_close, to_numpy
from nlattn.testing.backends import Backend
from nlattn.testing.suite import ROUNDING, Subject, check

__all__ = ["check_block_probe", "check_probe"]


def _on_rows(method: Method, backend: Backend) -> bool:
    return method.probe == "rows" and hasattr(method.module(), "_apply")


@check(_on_rows)
def check_probe(subject: Subject) -> None:
    """`_apply` on some rows gives those rows of the whole output, with masks and causality."""
    method, rng = subject.method, np.random.default_rng(4)
    q, k, v = subject.draw(batch=(2,), heads=4, heads_kv=2)
    s = k.shape[-2]
    masks: list[Any] = [None]
    if method.masks is not None:
        masks += [rng.random((4, 1, s)) < 0.7, np.where(rng.random((1, s)) < 0.7, 0.5, -np.inf)]
    if method.masks == "any":
        masks += [rng.random((24, s)) < 0.7, rng.standard_normal((2, 1, 24, 1)), rng.random((4, 24, s)) < 0.7]
    index = np.sort(rng.permuted(np.broadcast_to(np.arange(24), (2, 4, 24)), axis=-1)[..., :7], axis=-1)
    for is_causal in (False, True) if method.causal is not None else (False,):
        for mask in masks:
            options: dict[str, Any] = {
                "attn_mask": None if mask is None else subject.backend.array(mask),
                "is_causal": is_causal,
            }
            arrays = [subject.backend.array(x) for x in (q, k, v)]
            whole = to_numpy(subject.call(*arrays, **options))
            problem = prepare(method.name, *arrays, masks=method.masks, **options)
            draws = {} if method.deterministic else {"rng": 0}
            with subject.backend.context():
                state = method.module()._prepare(problem, *subject.budgets().values(), **draws)
                rows = problem.rows(subject.backend.array(index))
                part = method.module()._apply(state, rows).out
            wanted = np.take_along_axis(whole, index[..., None], axis=2)
            assert_close(to_numpy(part), wanted, rtol=ROUNDING["float64"], atol=1e-10)


def _on_blocks(method: Method, backend: Backend) -> bool:
    return method.probe == "query-blocks"


@check(_on_blocks)
def check_block_probe(subject: Subject) -> None:
    """`_apply` on some blocks of rows gives those rows of the whole output; other budgets need no new preparation."""
    method, module = subject.method, subject.method.module()
    q, k, v = subject.draw(120, 150, batch=(2,), heads=4, heads_kv=2)
    for is_causal in (False, True) if method.causal is not None else (False,):
        arrays = [subject.backend.array(x) for x in (q, k, v)]
        options: dict[str, Any] = {"is_causal": is_causal}
        problem = prepare(method.name, *arrays, masks=method.masks, **options)
        budgets = subject.budgets(most=24)
        near = np.full((2, 4), next(iter(budgets.values())))
        near[1, 2] = -1
        with subject.backend.context():
            state = module._prepare(problem, *budgets.values())
            numbers = np.asarray(module._block_numbers(state))[[0, 2]]
            rows = module._block_rows(state, problem, numbers)
            parts = [module._apply(x, problem.rows(rows), numbers).out for x in (state, module._rebudget(state, near))]
        whole = to_numpy(subject.call(*arrays, **(options | budgets)))
        wanted = np.take_along_axis(whole, to_numpy(rows)[..., None], axis=2)
        assert_close(to_numpy(parts[0]), wanted, rtol=ROUNDING["float64"], atol=1e-10)
        wanted[1, 2] = 0
        assert_close(to_numpy(parts[1]), wanted, rtol=ROUNDING["float64"], atol=1e-10)
