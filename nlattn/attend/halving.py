"""Causal attention from attention that is not causal, by recursive halving."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from nlattn.arrays.typing import Array, Namespace
from nlattn.attend.intervals import interval_attention
from nlattn.problem.partials import Partial, concat_rows, merge_partials
from nlattn.problem.problem import Problem

__all__ = ["Halves", "attend_to_halves", "prepare_halves"]

T = TypeVar("T")


class Pair(NamedTuple):
    """Two neighbouring stretches of `width` keys, the halves of a stretch of twice the width.

    Pair j of a width has the keys [2 j width, (2 j + 1) width) as its earlier half. The queries at the positions
    [(2 j + 1) width, (2 j + 2) width) are its later half: all those keys are in their past.
    """

    j: int
    begin: int
    end: int
    """The rows of its later half, as far as there are such queries: begin <= i < end."""

    def is_whole(self, width: int) -> bool:
        """Whether there is a query for each position of both halves."""
        return self.begin >= width and self.end - self.begin == width


class Run(NamedTuple):
    """Consecutive pairs of one width that are attended to by one call: several whole pairs, or any single pair.

    Attributes
    ----------
    width : int
    first : int
        The number j of the first pair.
    pairs : int
        How many pairs there are.
    begin, end : int
        The first row of the first later half, and the row behind the last later half. Where there are several pairs,
        the rows of earlier and later halves alternate in between.
    """

    width: int
    first: int
    pairs: int
    begin: int
    end: int

    @property
    def rows(self) -> slice:
        """The rows of the later halves; where there are several pairs, those of the earlier halves too."""
        return slice(self.begin if self.pairs == 1 else self.begin - self.width, self.end)

    @property
    def keys(self) -> slice:
        """The keys of the earlier halves; where there are several pairs, those of the later halves too."""
        start = 2 * self.width * self.first
        return slice(start, start + self.width * (1 if self.pairs == 1 else 2 * self.pairs))


class Halves(NamedTuple, Generic[T]):
    """The stretches of `width` keys that are met exactly, and what was prepared for each run of pairs of halves.

    Without causality there are no runs, and one preparation for the whole problem.
    """

    width: int
    runs: list[Run]
    states: list[T]


def prepare_halves(problem: Problem, most: int, prepare: Callable[[Problem], T]) -> Halves[T]:
    """Cut a causal problem into exact stretches of at most `most` keys and pairs of halves, and prepare the pairs.

    The keys are cut into 2^n stretches of one width w <= most, of which the last may be shorter or empty; w > most / 2
    where n > 0. On each level w, 2 w, 4 w, ... neighbouring stretches make a pair, and the queries of the later half
    attend to the keys of the earlier one. `prepare` gets problems that consist of such pairs and are not causal.
    Whatever it does with them, future keys and values have no influence; future queries of the same half may have.
    """
    s = problem.key.shape[2]
    if not problem.is_causal:
        return Halves(s, [], [prepare(problem)])
    width = s
    while width > most:
        width = -(-width // 2)
    level, runs = width, []
    while 0 < level < s:
        runs += list(_runs(problem, level))
        level *= 2
    # The problem of a run is made again when it is attended to: to keep it would be to keep a copy of all its keys.
    return Halves(width, runs, [prepare(_run_problem(problem, run)) for run in runs])


def attend_to_halves(problem: Problem, halves: Halves[T], apply: Callable[[T, Problem], Partial]) -> Partial:
    """Exact attention within the stretches, merged with what `apply` makes of each run of pairs."""
    xp = problem.xp
    if not problem.is_causal:
        return apply(halves.states[0], problem)
    begin = problem.position // max(halves.width, 1) * halves.width
    total = interval_attention(replace(problem, start=xp.maximum(problem.start, begin)))
    for run, state in zip(halves.runs, halves.states, strict=True):
        total = _merged_into(xp, total, apply(state, _run_problem(problem, run)), run)
    return total


def _runs(problem: Problem, width: int) -> Iterator[Run]:
    """The runs of one width: consecutive whole pairs together, any other pair by itself."""
    length, s = problem.query.shape[2], problem.key.shape[2]
    position = s - length  # of row 0
    pairs = []
    for j in range(max(0, position // (2 * width)), (s + width - 1) // (2 * width)):
        begin, end = max((2 * j + 1) * width - position, 0), min((2 * j + 2) * width - position, length)
        if begin < end:
            pairs.append(Pair(j, begin, end))
    for whole, group in itertools.groupby(pairs, key=lambda pair: pair.is_whole(width)):
        together = list(group)
        for some in [together] if whole else [[pair] for pair in together]:
            yield Run(width, some[0].j, len(some), some[0].begin, some[-1].end)


def _run_problem(problem: Problem, run: Run) -> Problem:
    """The problem of the pairs of a run, which stand one after the other on the batch axis, without causality."""
    xp, s = problem.xp, problem.key.shape[2]
    b, h, _, _, _ = problem.shape

    def keys(array: Array, axis: int) -> Array:
        if array.shape[axis] < s:  # a mask that is the same for all keys
            return _on_batch_axis(xp, xp.expand_dims(array, axis=axis), axis, run.pairs, b)
        earlier = _halves(xp, array, axis, run.keys, run)[0]
        return _on_batch_axis(xp, earlier, axis, run.pairs, b)

    later = _halves(xp, problem.query, 2, run.rows, run)[-1]
    query = _on_batch_axis(xp, later, 2, run.pairs, b)
    edge = xp.zeros((b * run.pairs, h, query.shape[2]), dtype=problem.start.dtype, device=problem.start.device)
    return replace(
        problem,
        query=query,
        key=keys(problem.key, 2),
        value=keys(problem.value, 2),
        start=edge,
        stop=edge + run.width,
        position=edge,
        is_causal=False,
        mask=None if problem.mask is None else keys(problem.mask, 3),
        bias=None if problem.bias is None else keys(problem.bias, 3),
        batch=(b * run.pairs,),
        has_heads=True,
    )


def _halves(xp: Namespace, array: Array, axis: int, entries: slice, run: Run) -> list[Array]:
    """The earlier and the later halves of the `entries` of an axis, each with the pairs on an axis of their own.

    The new axis stands before `axis`. A run of one pair has just one of the halves among its entries.
    """
    before = (slice(None),) * axis
    array = array[(*before, entries, ...)]
    if run.pairs == 1:
        return [xp.expand_dims(array, axis=axis)]
    array = xp.reshape(array, (*array.shape[:axis], run.pairs, 2, run.width, *array.shape[axis + 1 :]))
    return [array[(*before, slice(None), half, ...)] for half in range(2)]


def _on_batch_axis(xp: Namespace, array: Array, axis: int, pairs: int, b: int) -> Array:
    """An array with the pairs on `axis` as one whose batch consists of the pairs of each of the b batch elements."""
    array = xp.moveaxis(array, axis, 1)
    array = xp.broadcast_to(array, (b, pairs, *array.shape[2:]))
    # Make a contiguous copy: otherwise each gathering of rows would copy the view anew.
    copy: Array = xp.concat([xp.reshape(array, (b * pairs, *array.shape[2:]))], axis=0)
    return copy


def _merged_into(xp: Namespace, total: Partial, part: Partial, run: Run) -> Partial:
    """`total` with the partial of the pairs of a run merged into the rows of their later halves."""
    b, rows = total.lse.shape[0], run.rows
    here = Partial(*(x[:, :, rows, ...] for x in total))
    halves = [_halves(xp, x, 2, slice(None), run) for x in here]
    # From (B pairs, H, width, ...) to (B, H, pairs, width, ...).
    new = Partial(*(xp.moveaxis(xp.reshape(x, (b, run.pairs, *x.shape[1:])), 1, 2) for x in part))
    later = merge_partials(Partial(*(x[-1] for x in halves)), new)
    merged = [xp.stack([*old[:-1], x], axis=3) for old, x in zip(halves, later, strict=True)]
    pieces = [
        Partial(*(x[:, :, : rows.start, ...] for x in total)),
        Partial(*(xp.reshape(x, like.shape) for x, like in zip(merged, here, strict=True))),
        Partial(*(x[:, :, rows.stop :, ...] for x in total)),
    ]
    return concat_rows([piece for piece in pieces if piece.lse.shape[2] > 0])
