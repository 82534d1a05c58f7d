import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


@pytest.mark.parametrize("name", nlattn.datasets.NAMES)
def test_samples_are_attention_heads(name):
    sample = nlattn.datasets.load(name)
    heads, n, e = sample.query.shape
    assert sample.query.dtype == np.float32
    assert sample.key.shape[1:] == sample.value.shape[1:] == (n, e)
    assert heads % sample.key.shape[0] == 0
    assert all(np.isfinite(x).all() for x in sample[:3])
    assert sample.is_causal == (name == "smollm2")
    assert sample.about["licence"]
    assert sample.scale == pytest.approx(e**-0.5)
    # Real heads are no noise: their outputs are far from the mean of the values.
    rows = slice(0, 256)
    exact = dense_attention(sample.query[:, rows], sample.key, sample.value, scale=sample.scale)[0]
    mean = np.repeat(sample.value.mean(1, keepdims=True), heads // sample.key.shape[0], axis=0)
    assert np.linalg.norm(exact - mean) > 0.2 * np.linalg.norm(exact)


def test_dtype():
    assert nlattn.datasets.load("minilm", np.float16).key.dtype == np.float16


def test_unknown():
    with pytest.raises(ValueError, match="name must be one of 'smollm2', 'minilm', 'dinov2', 'whisper', got 'bert'"):
        nlattn.datasets.load("bert")
