"""The queries, keys and values that a command works on: read, checked, and cut to the wanted layer and heads."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlattn import datasets
from nlattn.cli.input.archive import PARTS, as_float, labels, read, scalar, some
from nlattn.cli.input.options import InputError
from nlattn.problem.arguments import checked_problem

__all__ = ["Input", "from_file", "from_sample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One layer: query (heads, L, E), key (heads_kv, S, E), value (heads_kv, S, Ev)."""

    name: str
    file: str | None
    query: Any
    key: Any
    value: Any
    scale: float
    is_causal: bool
    layer: int | None
    heads: tuple[int, ...]
    """Their numbers in the model."""
    assumed: tuple[str, ...] = ()
    """What the source did not say, a sentence each."""

    @property
    def sizes(self) -> dict[str, int]:
        (_, length, features), (_, s, width) = self.query.shape, self.value.shape
        return {"L": length, "S": s, "E": features, "Ev": width}

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments that every attention function takes."""
        return {"is_causal": self.is_causal, "scale": self.scale}


def from_file(
    path: Path, layer: int | None, heads: list[int] | None, causal: bool | None, scale: float | None
) -> Input:
    """The wanted layer and heads of an npz file; `causal` and `scale` override what it says."""
    arrays = read(path)
    # A missing heads or layers axis is one of size 1.
    layered = arrays["q"].ndim == 4
    q, k, v = (arrays[part].reshape((1,) * (4 - arrays[part].ndim) + arrays[part].shape) for part in PARTS)
    if not len(q) == len(k) == len(v) > 0:
        shapes = ", ".join(f"{part} {arrays[part].shape}" for part in PARTS)
        raise InputError(f"{path.name}: q, k and v must hold the same layers, at least one; got {shapes}.")
    named = labels(arrays, "layers", len(q)) or labels(arrays, "layer", len(q))
    layers = named or list(range(len(q)))
    layer = layers[-1] if layer is None else layer
    (at,) = _positions("--layer", path.name, [layer], layers)
    q, k, v = (as_float(path.name, part, array[at]) for part, array in zip(PARTS, (q, k, v), strict=True))

    assumed = []
    if causal is None and "causal" not in arrays:
        assumed.append("The file does not say whether it is causal: taken as not causal (--causal for the other).")
    if scale is None and "scale" not in arrays:
        assumed.append("The file holds no scale: E ** -0.5 is used (--scale for another).")
    causal = bool(scalar(path.name, arrays, "causal", 0)) if causal is None else causal
    scale = scalar(path.name, arrays, "scale", q.shape[-1] ** -0.5) if scale is None else scale
    _check(path.name, q, k, v, scale)
    numbers = labels(arrays, "q_heads", len(q)) or list(range(len(q)))
    chosen = numbers if heads is None else heads
    q, k, v = _take_heads(q, k, v, _positions("--heads", path.name, chosen, numbers))
    return Input(
        name=path.name,
        file=str(path),
        query=q,
        key=k,
        value=v,
        scale=float(scale),
        is_causal=causal,
        layer=layer if layered or named else None,
        heads=tuple(chosen),
        assumed=tuple(assumed),
    )


def from_sample(name: datasets.Name, heads: list[int] | None, causal: bool | None, scale: float | None) -> Input:
    """A shipped sample, of one layer."""
    sample = datasets.load(name)
    numbers = list(sample.about.get("q_heads", range(len(sample.query))))
    chosen = numbers if heads is None else heads
    at = _positions("--heads", name, chosen, numbers)
    q, k, v = _take_heads(sample.query, sample.key, sample.value, at)
    scale = sample.scale if scale is None else scale
    _check(name, q, k, v, scale)
    return Input(
        name=name,
        file=None,
        query=q,
        key=k,
        value=v,
        scale=scale,
        is_causal=sample.is_causal if causal is None else causal,
        layer=sample.layer,
        heads=tuple(chosen),
    )


def _check(where: str, q: Any, k: Any, v: Any, scale: float) -> None:
    for part, array in zip(PARTS, (q, k, v), strict=True):
        if array.size == 0:
            raise InputError(f"{where}: {part} is empty, of shape {array.shape}.")
        if not np.isfinite(array).all():
            raise InputError(f"{where}: {part} contains NaN or inf.")
    if not math.isfinite(scale):
        raise InputError(f"{where}: the scale must be finite; got {scale}.")
    try:
        checked_problem("compare", q, k, v, scale=scale)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}.") from error


def _positions(option: str, where: str, wanted: list[int], numbers: list[int]) -> list[int]:
    for number in wanted:
        if number not in numbers:
            raise InputError(f"{option}: {where} holds {some(numbers)}; got {number}.")
    return [numbers.index(number) for number in wanted]


def _take_heads(q: Any, k: Any, v: Any, at: list[int]) -> tuple[Any, Any, Any]:
    """The query heads `at` and their keys and values, grouped where each group keeps as many."""
    if at == list(range(len(q))):
        return q, k, v
    groups = [head // (len(q) // len(k)) for head in at]
    counts = {groups.count(group) for group in groups}
    groups = sorted(set(groups)) if len(counts) == 1 else groups
    return q[at], k[groups], v[groups]
