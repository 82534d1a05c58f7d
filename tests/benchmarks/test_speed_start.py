"""What a first call costs: import, and a first result with a warm compilation cache."""

import subprocess
import sys

import pytest

CALL = "import numpy as np, nlattn; x = np.ones((64, 8), 'f4'); nlattn.exact_attention(x, x, x)"


def run(code):
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.benchmark(group="processes")
@pytest.mark.parametrize("code", ["import nlattn", CALL], ids=["import", "first result"])
def test_start(race, code):
    race(lambda: run(code), {"import numpy": lambda: run("import numpy"), "python": lambda: run("pass")})
