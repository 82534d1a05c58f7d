"""``python -m nlattn`` and the command ``nlattn``."""

import sys
from importlib.util import find_spec

__all__ = ["main"]

NEEDED = ("matplotlib", "rich", "typer")


def main() -> None:
    """Run the command line, or say what it needs."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        needs = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        print(f'The command line needs {needs}: run  python -m pip install "nlattn[cli]"', file=sys.stderr)
        raise SystemExit(2)
    from nlattn.cli.app import app

    app(prog_name="nlattn")


if __name__ == "__main__":
    main()
