"""Where things are, for tests that read them from disk."""

from pathlib import Path

#: The clone.
ROOT = Path(__file__).parents[2]
#: Queries, keys and values of real models, which only some machines have.
SHARED = ROOT.parent / "shared" / "qkv"
