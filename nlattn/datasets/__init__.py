"""Queries, keys and values of real models, a few megabytes, shipped with the package.

Licences and attributions: ``LICENSES.md`` beside this file.
"""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nlattn.arrays.arguments import check_choice

__all__ = ["NAMES", "Name", "Sample", "load"]

Name = Literal["smollm2", "minilm", "dinov2", "whisper"]

#: What `load` takes.
NAMES: tuple[Name, ...] = get_args(Name)


class Sample(NamedTuple):
    """Queries, keys and values of one layer, after bias and position encoding, not scaled.

    Attributes
    ----------
    query : NumPy array, shape (heads, L, E)
    key, value : NumPy array, shape (heads_kv, L, E)
    scale : float
    is_causal : bool
    layer : int
        Counted from 0.
    about : dict
        Model, licence, text, and the numbers of the heads in the model.
    """

    query: NDArray[np.floating[Any]]
    key: NDArray[np.floating[Any]]
    value: NDArray[np.floating[Any]]
    scale: float
    is_causal: bool
    layer: int
    about: dict[str, Any]


def load(name: Name, dtype: DTypeLike = np.float32) -> Sample:
    """Load a sample of a real model.

    Parameters
    ----------
    name : {"smollm2", "minilm", "dinov2", "whisper"}
        ========  ==========================================  ======  ==========  ====  ==
        name      model                                       causal  heads       L     E
        ========  ==========================================  ======  ==========  ====  ==
        smollm2   SmolLM2-135M, layer 15, a book              yes     3 on 1 kv   2048  64
        minilm    MiniLM-L6, layer 5, a book                  no      12          512   32
        dinov2    DINOv2-small, layer 11, an image            no      3           1370  64
        whisper   Whisper tiny encoder, layer 2, speech       no      3           1500  64
        ========  ==========================================  ======  ==========  ====  ==
    dtype : NumPy dtype, default float32
        The files hold float16.

    Returns
    -------
    Sample

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("smollm2")
    >>> sample.query.shape, sample.key.shape, sample.is_causal
    ((3, 2048, 64), (1, 2048, 64), True)
    """
    check_choice("name", name, NAMES)
    with np.load(Path(__file__).with_name(f"{name}.npz"), allow_pickle=False) as file:
        query, key, value = (file[part].astype(dtype) for part in ("q", "k", "v"))
        about = json.loads(str(file["meta"]))
        return Sample(query, key, value, float(file["scale"]), bool(file["causal"]), int(file["layer"]), about)
