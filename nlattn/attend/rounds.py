"""Attention in rounds: in each, blocks of similar queries meet blocks of similar keys."""

from collections.abc import Iterable
from typing import Any

from nlattn.arrays.rows import take_for_heads
from nlattn.arrays.typing import Array
from nlattn.kernels.block_attention import block_attention
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import Pairing
from nlattn.select.usable_keys import Keys

__all__ = ["attend_in_rounds"]


def attend_in_rounds(
    problem: Problem,
    keys: Keys,
    pairings: Iterable[Pairing],
    *,
    unique: bool,
    look_back: bool = False,
    barred: tuple[Array, Array] | None = None,
    initial: Partial | None = None,
) -> Partial:
    """Exact attention over the pairs that meet in some round.

    With `unique`, a pair that met in an earlier round does not count again; without, it counts as often as it meets.
    Pairs whose codes `barred` (B, H, L) and (B, K, S) are equal count in no round. With `look_back` a block of queries
    also meets the block of keys before its own. `initial` is a partial over other keys, into which all is merged.
    """
    xp = problem.xp
    row_codes, key_codes = ([codes] for codes in barred) if barred is not None else ([], [])
    part, places = initial, None
    for pairing in pairings:
        begin, end = pairing.ranges(look_back=look_back)
        options: dict[str, Any] = {}
        if problem.is_causal:
            edges = (take_for_heads(edge, pairing.rows) for edge in (problem.start, problem.stop))
            options |= {"position": pairing.keys} | dict(zip(("start", "stop"), edges, strict=True))
        if keys.weight is not None:
            options["weight"] = take_for_heads(keys.weight, pairing.keys)
        if row_codes:
            options["met"] = (
                take_for_heads(xp.stack(row_codes, axis=-1), pairing.rows),
                take_for_heads(xp.stack(key_codes, axis=-1), pairing.keys),
            )
        if part is not None:
            # The rows of `part` stand in the order of the round before, and go straight to that of this round.
            at = pairing.rows if places is None else take_for_heads(places, pairing.rows)
            options["initial"] = tuple(take_for_heads(array, at) for array in part)
        part = Partial(
            *block_attention(
                take_for_heads(problem.query, pairing.rows),
                take_for_heads(keys.key, pairing.keys),
                take_for_heads(keys.value, pairing.keys),
                begin,
                end,
                scale=problem.scale,
                size=pairing.step,
                **options,
            )
        )
        places = pairing.row_places
        if unique:
            ours, theirs = pairing.met(look_back=look_back)
            row_codes, key_codes = [*row_codes, *ours], [*key_codes, *theirs]
    assert part is not None
    assert places is not None
    return Partial(*(take_for_heads(array, places) for array in part))
