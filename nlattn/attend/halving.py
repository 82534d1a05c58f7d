"""Causal attention from attention that is not causal, by recursive halving."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from nlattn.arrays.typing import Array, Namespace
from nlattn.attend.intervals import interval_attention
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem

__all__ = ["Halves", "attend_to_halves", "prepare_halves"]

T = TypeVar("T")


class Run(NamedTuple):
    """Consecutive pairs of halves of one width: the query rows from begin to end, and the number of the first pair."""

    width: int
    begin: int
    end: int
    first: int
    pairs: int


class Halves(NamedTuple, Generic[T]):
    """The stretches of `width` keys that are met exactly, and what was prepared for each run of pairs of halves.

    Without causality there are no runs, and one preparation for the whole problem.
    """

    width: int
    runs: list[Run]
    states: list[T]


def prepare_halves(problem: Problem, most: int, prepare: Callable[[Problem], T]) -> Halves[T]:
    """Cut a causal problem into exact stretches of at most `most` keys and pairs of halves, and prepare these.

    The keys are cut into 2^n stretches of one length w <= most (but for the last ones), w > most / 2 where n > 0. On
    every level w, 2 w, 4 w, ... the queries at [(2j + 1) w, (2j + 2) w) attend to the keys [2j w, (2j + 1) w), all of
    which are in their past. `prepare` gets problems of such pairs, which are not causal. Future keys and values have no
    influence then, whatever it does with those that it is given; future queries of the same half may have.
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
    # The problems are made anew when they are attended to: kept, they would be copies of all keys on each level.
    return Halves(width, runs, [prepare(_pair_problem(problem, run)) for run in runs])


def attend_to_halves(problem: Problem, halves: Halves[T], apply: Callable[[T, Problem], Partial]) -> Partial:
    """Exact attention within the stretches, merged with what `apply` makes of each run of pairs."""
    xp = problem.xp
    if not problem.is_causal:
        return apply(halves.states[0], problem)
    begin = problem.position // max(halves.width, 1) * halves.width
    total = interval_attention(replace(problem, start=xp.maximum(problem.start, begin)))
    for run, state in zip(halves.runs, halves.states, strict=True):
        total = _merged_into(xp, total, apply(state, _pair_problem(problem, run)), run)
    return total


def _runs(problem: Problem, width: int) -> Iterator[Run]:
    """The runs of one width: pairs whose halves are whole stand together, others alone."""
    length, s = problem.query.shape[2], problem.key.shape[2]
    shift = s - length
    first, begin, end, pairs = 0, 0, 0, 0
    for j in range(max(0, shift // (2 * width)), (s + width - 1) // (2 * width)):
        low, high = max((2 * j + 1) * width - shift, 0), min((2 * j + 2) * width - shift, length)
        if high <= low:
            continue
        # A whole pair: the rows of its earlier half are there too.
        if pairs > 0 and high - low == width and low - end == width and end - begin == (2 * pairs - 1) * width:
            end, pairs = high, pairs + 1
            continue
        if pairs > 0:
            yield Run(width, begin, end, first, pairs)
        first, begin, end, pairs = j, low, high, 1
        if low < width:
            yield Run(width, begin, end, first, pairs)
            pairs = 0
    if pairs > 0:
        yield Run(width, begin, end, first, pairs)


def _pair_problem(problem: Problem, run: Run) -> Problem:
    """The problem of the pairs of a run, behind each other on the batch axis, and without causality."""
    xp = problem.xp
    width, begin, end, first, pairs = run
    b, h, _, _, s = problem.shape

    def cut(array: Array, axis: int, start: int, stop: int, half: int) -> Array:
        """One half of each pair of the entries start to stop of an axis, with the pairs joined to the batch."""
        some = array[(*(slice(None),) * axis, slice(start, stop), ...)]
        if pairs > 1:
            some = xp.reshape(some, (*some.shape[:axis], pairs, 2, width, *some.shape[axis + 1 :]))
            some = some[(*(slice(None),) * (axis + 1), half, ...)]
        else:
            some = xp.expand_dims(some, axis=axis)
        return joined(some, axis)

    def joined(array: Array, axis: int) -> Array:
        array = xp.moveaxis(array, axis, 1)
        array = xp.broadcast_to(array, (b, pairs, *array.shape[2:]))
        # A copy in one piece: each gathering of rows would copy a view anew.
        return xp.concat([xp.reshape(array, (b * pairs, *array.shape[2:]))], axis=0)

    def keys(array: Array | None, axis: int) -> Any:
        if array is None or array.shape[axis] < s:
            return None if array is None else joined(xp.expand_dims(array, axis=axis), axis)
        start = 2 * width * first
        return cut(array, axis, start, start + (2 * pairs if pairs > 1 else 1) * width, 0)

    query = cut(problem.query, 2, begin - (width if pairs > 1 else 0), end, 1)
    edge = xp.zeros((b * pairs, h, query.shape[2]), dtype=problem.start.dtype, device=problem.start.device)
    return replace(
        problem,
        query=query,
        key=keys(problem.key, 2),
        value=keys(problem.value, 2),
        start=edge,
        stop=edge + width,
        position=edge,
        is_causal=False,
        mask=keys(problem.mask, 3),
        bias=keys(problem.bias, 3),
        batch=(b * pairs,),
        has_heads=True,
    )


def _merged_into(xp: Namespace, total: Partial, part: Partial, run: Run) -> Partial:
    """`total` with the partial of the pairs of a run merged into its rows."""
    _, begin, end, _, pairs = run
    if pairs == 1:
        new = merge_partials(Partial(*(x[:, :, begin:end, ...] for x in total)), part)
        pieces = [Partial(*(x[:, :, :begin, ...] for x in total)), new]
    else:
        (b, h, _), width = total.lse.shape, part.lse.shape[2]
        cut = [x[:, :, begin - width : end, ...] for x in total]
        halves = [xp.reshape(x, (b, h, pairs, 2, width, *x.shape[3:])) for x in cut]
        rows = [xp.moveaxis(xp.reshape(x, (b, pairs, *x.shape[1:])), 1, 2) for x in part]
        later = merge_partials(Partial(*(x[:, :, :, 1, ...] for x in halves)), Partial(*rows))
        both = [xp.stack([x[:, :, :, 0, ...], y], axis=3) for x, y in zip(halves, later, strict=True)]
        new = Partial(*(xp.reshape(x, y.shape) for x, y in zip(both, cut, strict=True)))
        pieces = [Partial(*(x[:, :, : begin - width, ...] for x in total)), new]
    pieces.append(Partial(*(x[:, :, end:, ...] for x in total)))
    pieces = [piece for piece in pieces if piece.lse.shape[2] > 0]
    if len(pieces) == 1:
        return pieces[0]
    return Partial(*(xp.concat([piece[i] for piece in pieces], axis=2) for i in range(2)))
