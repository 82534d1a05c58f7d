"""Checks of the layout of arrays in memory, of their dtypes, and that inputs are left alone."""

from typing import Any

import array_api_compat
import numpy as np

from nlattn.testing._asserts import assert_close, to_numpy
from nlattn.testing._backends import BACKENDS
from nlattn.testing._suite import ROUNDING, Subject, check

__all__ = ["check_agrees_with_numpy", "check_dtypes", "check_layouts", "check_numpy_layouts", "check_scale"]


def _layouts(subject: Subject, x: np.ndarray) -> dict[str, Any]:
    """The same array as views with different layouts in memory."""
    array = subject.backend.array
    xp = array_api_compat.array_namespace(array(x))
    swapped = np.ascontiguousarray(np.swapaxes(x, -1, -2))
    views = {
        "every other row": array(np.repeat(x, 2, axis=-2))[..., ::2, :],
        "every other feature": array(np.repeat(x, 2, axis=-1))[..., ::2],
        "part of wider rows": array(np.concatenate([x, x], axis=-1))[..., : x.shape[-1]],
        "Fortran order": xp.matrix_transpose(array(swapped)),
        "heads inside": xp.permute_dims(array(np.ascontiguousarray(np.swapaxes(x, 0, 1))), (1, 0, 2)),
    }
    if subject.backend.library != "torch":  # no negative strides there
        views["rows backwards"] = array(np.flip(x, axis=-2))[..., ::-1, :]
        views["features backwards"] = array(np.flip(x, axis=-1))[..., ::-1]
        views["heads backwards"] = array(np.flip(x, axis=0))[::-1, ...]
    return views


@check()
def check_layouts(subject: Subject) -> None:
    """Strided, transposed, reversed and broadcast inputs give what contiguous copies give, and are not written to."""
    arrays = subject.draw()
    plain = [subject.backend.array(x) for x in arrays]
    wanted = subject.call(*plain)
    views = [_layouts(subject, x) for x in arrays]
    for layout in views[0]:
        inputs = [view[layout] for view in views]
        assert_close(subject.call(*inputs), wanted, rtol=ROUNDING["float64"], atol=1e-10)
        for new, old in zip(inputs, arrays, strict=True):
            assert np.array_equal(to_numpy(new), old), f"{layout}: an input was written to"
    xp = array_api_compat.array_namespace(plain[0])
    for axis in (0, 1):
        one = [x[:1, ...] if axis == 0 else x[:, :1, ...] for x in plain]
        wide = [xp.broadcast_to(few, x.shape) for few, x in zip(one, plain, strict=True)]
        wanted = subject.call(*(subject.backend.array(to_numpy(x)) for x in wide))
        assert_close(subject.call(*wide), wanted, rtol=ROUNDING["float64"], atol=1e-10)


@check(lambda record, backend: backend.library == "numpy")
def check_numpy_layouts(subject: Subject) -> None:
    """Read-only, unaligned and big-endian NumPy arrays, and views of structured arrays, give what plain arrays give."""
    for dtype in (np.float64, np.float32):
        arrays = [x.astype(dtype) for x in subject.draw()]
        wanted = subject.call(*arrays)

        def unaligned(x: Any) -> Any:
            raw = np.empty(x.nbytes + 1, dtype=np.uint8)
            view = raw[1:].view(x.dtype).reshape(x.shape)
            view[...] = x
            return view

        def record(x: Any) -> Any:
            table = np.zeros(x.shape, dtype=[("tag", "i1"), ("x", x.dtype)])
            table["x"] = x
            return table["x"]

        def read_only(x: Any) -> Any:
            x = x.copy()
            x.flags.writeable = False
            return x

        for make in (unaligned, record, read_only):
            inputs = [make(x) for x in arrays]
            assert_close(subject.call(*inputs), wanted, rtol=1e-12 if dtype == np.float64 else 1e-3, atol=1e-5)
            assert all(np.array_equal(new, old) for new, old in zip(inputs, arrays, strict=True))
    swapped = [x.astype(">f8") for x in subject.draw()]
    out = subject.call(*swapped)
    assert_close(np.asarray(out, dtype=np.float64), subject.call(*subject.draw()), rtol=1e-9, atol=1e-10)


@check()
def check_dtypes(subject: Subject) -> None:
    """Each dtype is kept, with an error of the order of its rounding; a partial is in at least float32."""
    q, k, v = subject.draw()
    for dtype in subject.backend.dtypes:
        rounded = [to_numpy(subject.backend.array(x, dtype)).astype(np.float64) for x in (q, k, v)]
        pairs = [tuple(subject(*rounded, dtype=kind) for kind in (dtype, "float64"))]
        if subject.record.partial:
            parts = (subject(*rounded, dtype=kind, return_lse=True) for kind in (dtype, "float64"))
            pairs.extend(zip(*parts, strict=True))
        for x, y in pairs:
            assert_close(x.astype(np.float64), y, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@check()
def check_scale(subject: Subject) -> None:
    """An explicit scale is a factor of the queries. It may be 0, and None is E ** -0.5."""
    q, k, v = subject.draw()
    if subject.record.shared_qk:
        return
    plain = subject(q, k, v)
    for scale in (8**-0.5, np.float32(8**-0.5), np.float64(8**-0.5)):
        assert_close(subject(q, k, v, scale=scale), plain, rtol=1e-5, atol=1e-6)
    assert_close(subject(q, k, v, scale=0.9), subject(q * 1.8, k, v, scale=0.5), rtol=1e-7, atol=1e-8)
    assert np.all(np.isfinite(subject(q, k, v, scale=0.0)))
    assert np.abs(subject(q, k, v, scale=0.9) - plain).max() > 1e-3


@check(lambda record, backend: backend.name != "numpy-generic")
def check_agrees_with_numpy(subject: Subject) -> None:
    """The backend gives what generic NumPy gives. Randomised methods get the same seed, by which draws are the same."""
    reference = Subject(subject.method, BACKENDS["numpy-generic"], subject.function)
    for length, s, batch in ((24, 40, (2,)), (60, 45, ())):
        arrays = subject.draw(length, s, heads=4, heads_kv=2, batch=batch)
        assert_close(subject(*arrays), reference(*arrays), rtol=1e-8, atol=1e-9)
