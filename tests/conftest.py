"""What several test files share."""

import collections
import os
import subprocess
import sys

import numpy as np
import pytest

from nlattn.testing import BACKENDS


@pytest.fixture(params=BACKENDS.values(), ids=str)
def backend(request):
    """Every backend that is available, each in its context."""
    reason = request.param.unavailable()
    if reason is not None:
        pytest.skip(reason)
    with request.param.context():
        yield request.param


@pytest.fixture(autouse=True)
def _same_draws(request, monkeypatch):
    """A test draws the same numbers from the `rng` of its file whatever ran before it in the same process."""
    if hasattr(request.module, "rng"):
        monkeypatch.setattr(request.module, "rng", np.random.default_rng(0))


@pytest.fixture
def run_python(tmp_path):
    """Runs code in a process of its own, away from the clone, and returns what it prints."""

    def run(code, *, options=(), **environment):
        done = subprocess.run(
            [sys.executable, *options, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | environment,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Few tests, and benchmarks, run in this process: starting others takes longer, or disturbs what is measured."""
    if config.option.markexpr == "smoke" or config.option.benchmark_only:
        config.option.numprocesses = 0


def pytest_terminal_summary(terminalreporter):
    """One line that counts what was skipped, by reason."""
    reasons = collections.Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        listed = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"skipped {sum(reasons.values())}: {listed}")
