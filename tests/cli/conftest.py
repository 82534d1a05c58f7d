"""Files for the command line, which measures few rounds here."""

import numpy as np
import pytest
from small_arrays import arrays


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch):
    monkeypatch.setattr("nlattn.cli.measurement.measure.MOST", 3)


@pytest.fixture
def save(tmp_path):
    def write(name="input.npz", **content):
        np.savez(tmp_path / name, **content)
        return tmp_path / name

    return write


@pytest.fixture
def model(save):
    """Two layers, 5 and 9, of four heads, 10 to 13, on two of keys."""
    return save(
        **arrays(2, dtype=np.float16), layers=[5, 9], q_heads=[10, 11, 12, 13], scale=np.float32(0.3), causal=False
    )
