"""Side-by-side timing: all rivals of a case run in turn, round after round, and ratios of medians are reported."""

import platform
import statistics
import time
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from places import SHARED

# PyTorch's OpenMP threads spin for some milliseconds after a call and would take a CPU from whoever comes next. After a
# longer pause some virtual machines wake all threads on one CPU.
PAUSE = 0.008
REPORT: list[tuple[str, dict, float]] = []
GROWTH: list[tuple[str, float, float]] = []


@pytest.fixture
def race(benchmark, request):
    """race(ours, rivals, errors): time `ours` with pytest-benchmark and each rival before each of its rounds."""

    def run(ours, rivals, errors=None, rounds=7):
        times = {name: [] for name in rivals}

        def once():
            for name, rival in rivals.items():
                time.sleep(PAUSE)
                begin = time.perf_counter()
                rival()
                times[name].append(time.perf_counter() - begin)
            time.sleep(PAUSE)

        for function in (ours, *rivals.values()):
            function()
        benchmark.pedantic(ours, setup=once, rounds=rounds)
        median = statistics.median(benchmark.stats.stats.data) if benchmark.stats else float("nan")
        ratios = {name: statistics.median(seconds) / median for name, seconds in times.items()}
        benchmark.extra_info.update(ratios=ratios, errors=errors or {})
        REPORT.append((request.node.name, {"ratios": ratios, "errors": errors or {}}, median))

    return run


@pytest.fixture
def growth(benchmark, request):
    """growth(call, sizes, expected): the exponent of the time of call(size), sizes in turn, and the documented one."""

    def run(call, sizes, expected, rounds=5):
        times = {size: [] for size in sizes}

        def once():
            for size in sizes:
                time.sleep(PAUSE)
                begin = time.perf_counter()
                call(size)
                times[size].append(time.perf_counter() - begin)

        once()
        for seconds in times.values():
            seconds.clear()
        benchmark.pedantic(once, rounds=rounds)
        medians = [statistics.median(times[size]) for size in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])
        benchmark.extra_info.update(slope=slope, documented=expected)
        GROWTH.append((request.node.name, slope, expected))

    return run


@pytest.fixture
def real():
    """real(n, layer): q, k, v of SmolLM2, three query heads on one key head, of which users have no copy."""

    def load(n, layer):
        files = list(SHARED.glob(f"smollm2_kjv_n{n}_kv1.npz"))
        if not files:
            pytest.skip("needs ../shared/qkv")
        with np.load(files[0]) as z:
            return tuple(z[part][z["layers"].tolist().index(layer)].astype(np.float32) for part in "qkv")

    return load


def machine():
    """The processor, as far as it says what it is, and what the kernels and the BLAS make of it."""
    from nlattn.backends.numba_cpu.runtime.pool import threads
    from nlattn.backends.numba_cpu.vector.host import HOST

    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    blas = {found["architecture"] for found in threadpoolctl.threadpool_info() if "architecture" in found}
    width = f"vectors of {8 * HOST.width} bits"
    return f"{name}, {width}, BLAS for {', '.join(sorted(blas)) or 'an unknown processor'}, {threads()} threads"


def pytest_terminal_summary(terminalreporter):
    if GROWTH:
        terminalreporter.section("exponent of the time: fitted, and of the documented cost")
    for name, slope, expected in GROWTH:
        terminalreporter.write_line(f"{name:58s} {slope:5.2f}   {expected:5.2f}")
    if not REPORT:
        return
    terminalreporter.section("time of each rival / time of nlattn (medians, interleaved); relative errors behind")
    terminalreporter.write_line(machine())
    for name, info, median in REPORT:
        ratios = "  ".join(f"{rival} {ratio:5.2f}" for rival, ratio in info["ratios"].items())
        errors = "  ".join(f"{who} {error:.1e}" for who, error in info["errors"].items())
        terminalreporter.write_line(f"{name:58s} {1e3 * median:9.2f} ms   {ratios}   | {errors}")
