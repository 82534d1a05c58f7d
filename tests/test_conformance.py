"""The conformance suite over all methods, some of their options, and all backends."""

import importlib
import importlib.util
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nlattn import METHODS, nystrom_attention
from nlattn.testing import BACKENDS, cases

random_nystrom = partial(nystrom_attention, selection="random")
kmeans_nystrom = partial(nystrom_attention, selection="kmeans")
iterated_nystrom = partial(nystrom_attention, pinv="iter")

#: Options that change what a method is: under a record of their own.
VARIANTS = {
    "nystrom-random": replace(METHODS["nystrom"], function=f"{__name__}.random_nystrom", deterministic=False),
    "nystrom-kmeans": replace(METHODS["nystrom"], function=f"{__name__}.kmeans_nystrom", deterministic=False),
    "nystrom-iter": replace(METHODS["nystrom"], function=f"{__name__}.iterated_nystrom"),
}


def _params() -> list[Any]:
    return [
        pytest.param(*case, id=f"{name}-{case[2]}-{case[0]}", marks=[pytest.mark.slow] if case[0].slow else [])
        for name, method in {**METHODS, **VARIANTS}.items()
        for case in cases([method])
    ]


@pytest.fixture(scope="module", autouse=True)
def _one_torch_thread():
    """Threads do not pay for arrays this small, and on a busy machine they wait for each other."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("check", "method", "backend"), _params())
def test_conformance(check, method, backend):
    check(method, backend)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=str)
def test_every_method_has_checks_on_every_backend(backend):
    for method in METHODS.values():
        assert len(cases([method], [backend])) > 20
