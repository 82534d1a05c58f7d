"""Reading npz files: what is missing or has the wrong form is said in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np

from nlattn.cli.input.options import InputError

__all__ = ["PARTS", "as_float", "labels", "read", "scalar", "some"]

PARTS = ("q", "k", "v")


def read(path: Path) -> dict[str, Any]:
    """The arrays of a file that holds q, k and v."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # A broken archive raises whatever its decoder likes.
        raise InputError(f"{path} cannot be read as an npz file of plain arrays.") from error
    missing = [part for part in PARTS if part not in arrays]
    if missing:
        raise InputError(f"{path.name} must hold q, k and v; {', '.join(missing)} missing, it holds {some(arrays)}.")
    shapes = [arrays[part].shape for part in PARTS]
    if not len(shapes[0]) == len(shapes[1]) == len(shapes[2]) or len(shapes[0]) not in (2, 3, 4):
        listed = ", ".join(f"{part} {shape}" for part, shape in zip(PARTS, shapes, strict=True))
        raise InputError(
            f"{path.name}: q, k and v must all have the axes (n, d), (heads, n, d) or (layers, heads, n, d); "
            f"got {listed}."
        )
    return arrays


def as_float(where: str, part: str, array: Any) -> Any:
    """An array in a dtype to compute in: its own, or float32 for float16."""
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(f"{where}: {part} must be float16, float32 or float64; got {array.dtype}.")
    return array.astype(np.float32 if array.dtype.itemsize == 2 else array.dtype.newbyteorder("="))


def labels(arrays: dict[str, Any], name: str, count: int) -> list[int] | None:
    """The integers that an optional array lists, where there is one for each of `count`."""
    array = arrays.get(name)
    fits = array is not None and array.dtype.kind in "iu" and array.size == count
    return [int(number) for number in array.ravel()] if fits and array is not None else None


def scalar(where: str, arrays: dict[str, Any], name: str, otherwise: float) -> float:
    """An optional number, or `otherwise`."""
    array = arrays.get(name)
    if array is None:
        return otherwise
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise InputError(f"{where}: {name} must be one number; got {array.dtype} of shape {array.shape}.")
    return float(array.item())


def some(items: Any) -> str:
    """The first of them, enough to recognise the rest by."""
    listed = [str(item) for item in items]
    return ", ".join(listed[:12]) + (", ..." if len(listed) > 12 else "") if listed else "nothing"
