"""The constants of multipole attention."""

from dataclasses import dataclass

__all__ = ["POLICY", "MultipolePolicy"]


@dataclass(frozen=True, kw_only=True)
class MultipolePolicy:
    """The constants of the method, each with its unit and the measurement or reason behind it."""

    #: The largest number of rows that choose their near clusters together: a product of 64 rows runs at full speed, and
    #: neighbouring queries of real heads choose alike.
    most_block: int = 64
    #: The largest number of rows that share an expansion point. Smaller groups changed errors by a few per cent only.
    most_group: int = 512
    #: Blocks of rows on which layouts and numbers of near keys are compared: with more, the comparison costs more than
    #: it saves.
    trials: int = 8
    #: What it costs to meet a cluster, beyond its keys and in units of a key: the choice prefers few large clusters to
    #: many small ones.
    overhead: int = 16
    #: Lloyd steps of k-means. Four of them changed no error by more than 2 per cent.
    steps: int = 2
    #: The mean number of keys of a cluster in the variant "paper", as in its source.
    paper_cluster_size: int = 16
    #: Lloyd steps of k-means in the variant "paper", as in its source.
    paper_steps: int = 10
    #: Near keys with which the search for a tolerance begins.
    first: int = 256
    #: The part of the tolerance that the error on the rows of a trial must come down to: the error on all rows is a
    #: little larger.
    goal: float = 0.75
    #: A step of the search reduces the error by at least this factor, so that the steps are few.
    step: float = 1.2
    #: Errors fall at best like this power of the number of near keys. The search assumes that, so as not to overshoot.
    fall: float = 0.8


POLICY = MultipolePolicy()
