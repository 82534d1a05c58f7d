"""Points to centres of limited room, by exchanges between clusters."""

from nlattn.arrays.host import concrete_or
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.cheapest_moves import cheapest_moves

__all__ = ["exchanged", "filled"]


def filled(xp: Namespace, costs: Array, seats: Array, capacity: Array) -> Array:
    """Labels (..., n) within the capacities (...,): the nearest centre where it has room, which the nearest points get.

    The other points get any free seat. Points that take no seat get the label k.
    """
    k = costs.shape[-1]
    nearest, cost = xp.argmin(costs, axis=-1), xp.min(costs, axis=-1)
    labels = xp.where(seats, nearest, xp.full_like(nearest, k))
    counts = _counts(xp, labels, k)
    order = xp.argsort(cost, axis=-1, stable=True)
    by_label = xp.argsort(xp.take_along_axis(labels, order, axis=-1), axis=-1, stable=True)
    order = xp.take_along_axis(order, by_label, axis=-1)
    # The place of each point among those of its label, nearest first.
    place = xp.argsort(order, axis=-1) - xp.take_along_axis(
        xp.concat([xp.cumulative_sum(counts, axis=-1) - counts, xp.zeros_like(counts[..., :1])], axis=-1),
        labels,
        axis=-1,
    )
    over = seats & (place >= capacity[..., None])
    # The e-th point that is too many takes the e-th free seat.
    number = xp.cumulative_sum(xp.astype(over, xp.int64), axis=-1) - 1
    free = xp.cumulative_sum(xp.clip(capacity[..., None] - counts, 0, None), axis=-1)
    seat = xp.sum(xp.astype(free[..., None, :] <= number[..., None], xp.int64), axis=-1)
    return xp.where(over, seat, labels)


def exchanged(xp: Namespace, costs: Array, labels: Array, capacity: Array) -> Array:
    """Better labels within the capacities.

    In each round, pairs of clusters that are each other's best partners exchange the two points that gain most, or
    move one into a free seat; until no pair gains.
    """
    n, k = costs.shape[-2:]
    most = -(-n // k)
    point = xp.arange(n, dtype=labels.dtype, device=labels.device)
    own = xp.eye(k, dtype=costs.dtype, device=costs.device) > 0
    # A gain below this may be rounding.
    least_gain = 8 * xp.finfo(costs.dtype).eps * xp.max(xp.abs(costs), axis=(-2, -1))[..., None]
    counts = _counts(xp, labels, k)
    while True:
        move, mover = cheapest_moves(costs, labels, most)
        room = (counts < capacity[..., None])[..., None, :]
        single = xp.where(room, move, xp.inf)
        swap = move + xp.matrix_transpose(move)
        gain = xp.minimum(swap, xp.minimum(single, xp.matrix_transpose(single)))
        gain = xp.where(own, xp.inf, gain)
        partner = xp.argmin(gain, axis=-1)

        def of_partner(table: Array, at: Array = partner) -> Array:
            """The entry of each cluster's row that belongs to its partner."""
            return xp.take_along_axis(table, at[..., None], axis=-1)[..., 0]

        best = of_partner(gain)
        back = xp.take_along_axis(partner, partner, axis=-1)
        agreed = (back == xp.arange(k, dtype=back.dtype, device=back.device)) & (best < -least_gain)
        if not concrete_or(xp.any(agreed), otherwise=False):
            return labels
        leaves = agreed & ((of_partner(swap) <= best) | (of_partner(single) <= best))
        comes = agreed & xp.take_along_axis(leaves, partner, axis=-1)
        counts = counts + xp.astype(comes, counts.dtype) - xp.astype(leaves, counts.dtype)
        # Points that stay out have the label k, that of a cluster which no point leaves.
        leaves = xp.concat([leaves, xp.zeros_like(leaves[..., :1])], axis=-1)
        leaver, target = (xp.concat([a, xp.zeros_like(a[..., :1])], axis=-1) for a in (of_partner(mover), partner))
        goes, leaver, target = (xp.take_along_axis(a, labels, axis=-1) for a in (leaves, leaver, target))
        labels = xp.where(goes & (leaver == point), target, labels)


def _counts(xp: Namespace, labels: Array, k: int) -> Array:
    """How many points have each label."""
    numbers = xp.arange(k, dtype=labels.dtype, device=labels.device)
    return xp.count_nonzero(labels[..., None] == numbers, axis=-2)
