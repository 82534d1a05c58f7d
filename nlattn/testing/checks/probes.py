"""Checks that some rows, computed alone, are those rows of the whole output."""

from typing import Any

import numpy as np

from nlattn.methods.method import BlockMethod
from nlattn.problem.arguments import checked_problem
from nlattn.problem.partials import normalised
from nlattn.testing._asserts import assert_close, to_numpy
from nlattn.testing._suite import ROUNDING, Subject, check

__all__ = ["check_block_probe", "check_probe"]


@check(lambda record, backend: record.probe == "rows")
def check_probe(subject: Subject) -> None:
    """`apply` on some rows gives those rows of the whole output, also with masks and causality."""
    record, rng = subject.record, np.random.default_rng(4)
    q, k, v = subject.draw(batch=(2,), heads=4, heads_kv=2)
    s = k.shape[-2]
    masks: list[Any] = [None]
    if record.masks is not None:
        masks += [rng.random((4, 1, s)) < 0.7, np.where(rng.random((1, s)) < 0.7, 0.5, -np.inf)]
    if record.masks == "any":
        masks += [rng.random((24, s)) < 0.7, rng.standard_normal((2, 1, 24, 1)), rng.random((4, 24, s)) < 0.7]
    index = np.sort(rng.permuted(np.broadcast_to(np.arange(24), (2, 4, 24)), axis=-1)[..., :7], axis=-1)
    method = subject.with_budgets()
    for is_causal in (False, True) if record.causal is not None else (False,):
        for mask in masks:
            options: dict[str, Any] = {
                "attn_mask": None if mask is None else subject.backend.array(mask),
                "is_causal": is_causal,
            }
            arrays = [subject.backend.array(x) for x in (q, k, v)]
            whole = to_numpy(subject.call(*arrays, **options))
            problem = checked_problem(record.name, *arrays, masks=record.masks, **options)
            with subject.backend.context():
                state = method.prepare(problem, np.random.default_rng(0))
                part = normalised(method.apply(state, problem.rows(subject.backend.array(index))))
            wanted = np.take_along_axis(whole, index[..., None], axis=2)
            assert_close(to_numpy(part), wanted, rtol=ROUNDING["float64"], atol=1e-10)


@check(lambda record, backend: record.probe == "query-blocks")
def check_block_probe(subject: Subject) -> None:
    """Some blocks of rows are those rows of the whole output, and another budget needs no new preparation."""
    q, k, v = subject.draw(120, 150, batch=(2,), heads=4, heads_kv=2)
    method = subject.with_budgets(most=24)
    assert isinstance(method, BlockMethod), f"{type(method).__name__} is no BlockMethod"
    for is_causal in (False, True) if subject.record.causal is not None else (False,):
        arrays = [subject.backend.array(x) for x in (q, k, v)]
        problem = checked_problem(subject.name, *arrays, masks=subject.record.masks, is_causal=is_causal)
        heads = np.ones((2, 4), dtype=bool)
        heads[1, 2] = False
        budgets = np.full((2, 4), next(iter(method.budgets.values())))
        with subject.backend.context():
            state = method.prepare(problem, np.random.default_rng(0))
            numbers = np.asarray(method.blocks(state))[[0, 2]]
            index = method.block_rows(state, problem, numbers)
            rows = problem.rows(index)
            states = state, method.with_budgets(state, budgets, heads)
            parts = [to_numpy(method.apply_blocks(x, rows, numbers).out) for x in states]
        whole = to_numpy(subject.call(*arrays, is_causal=is_causal, **method.budgets))
        wanted = np.take_along_axis(whole, to_numpy(index)[..., None], axis=2)
        assert_close(parts[0], wanted, rtol=ROUNDING["float64"], atol=1e-10)
        wanted[1, 2] = 0
        assert_close(parts[1], wanted, rtol=ROUNDING["float64"], atol=1e-10)
