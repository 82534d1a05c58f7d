"""The constants of multipole attention."""

from dataclasses import dataclass

__all__ = ["POLICY", "MultipolePolicy"]


@dataclass(frozen=True, kw_only=True)
class MultipolePolicy:
    """The constants, each with its unit and the measurement or reason behind it."""

    #: Rows that choose their near clusters together, at most: a product of 64 rows runs at full speed, and
    #: neighbouring queries of real heads choose alike.
    most_block: int = 64
    #: Rows that share an expansion point, at most. Smaller groups changed errors by a few per cent.
    most_group: int = 512
    #: Blocks on which layouts and numbers of near keys are compared: with more, the comparison costs more than it
    #: saves.
    trials: int = 8
    #: What meeting a cluster costs beyond its keys, in keys: the choice prefers few large clusters to many small
    #: ones.
    overhead: int = 16
    #: Lloyd steps of k-means. Four of them changed no error by more than 2 per cent.
    steps: int = 2
    #: Keys of a cluster and Lloyd steps of the variant "paper", as in its source.
    paper_cluster: int = 16
    paper_steps: int = 10
    #: Near keys with which the search for a tolerance begins.
    first: int = 256
    #: The part of the tolerance that the error on a trial must reach: all rows are a little worse than those of a
    #: trial.
    goal: float = 0.75
    #: The least factor of the error that is bridged by one step of the search.
    step: float = 1.2
    #: The power of the number of near keys by which errors fall at best: a larger one would overshoot.
    fall: float = 0.8


POLICY = MultipolePolicy()
