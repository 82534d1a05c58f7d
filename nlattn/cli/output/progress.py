"""A progress bar on stderr that appears only when it is worth it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["progress_bar"]

PATIENCE = 1.0  # seconds


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[str, int], None]]:
    """Yield ``advance(what, steps)``; the bar is shown after a second, on a terminal, and removed at the end."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=4,  # little beside what is being timed
    )
    task = progress.add_task("", total=total)
    # A thread of its own, since the first step may be the long one.
    timer = threading.Timer(PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda what, steps: progress.update(task, description=what, advance=steps)
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
