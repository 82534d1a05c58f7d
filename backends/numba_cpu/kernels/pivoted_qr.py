"""QR factorisation with column pivoting by LAPACK."""

import numpy as np
import scipy.linalg

from nlattn.backends.numba_cpu.runtime.layout import NumpyArray

__all__ = ["pivoted_qr"]


def pivoted_qr(a: NumpyArray, k: int) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.pivoted_qr.pivoted_qr`."""
    if a.size == 0 or k == 0 or not np.all(np.isfinite(a)):
        return NotImplemented
    q, r, order = scipy.linalg.qr(a, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(np.diagonal(r))
    rank = min(k, int(np.sum(sizes > max(a.shape) * np.finfo(a.dtype).eps * sizes[0])))
    unpermuted = np.empty((rank, a.shape[1]), r.dtype)
    unpermuted[:, order] = r[:rank]
    return q[:, :rank], unpermuted, order[:rank].astype(np.int64)
