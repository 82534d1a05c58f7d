"""Locality-sensitive hashing, k-means, and blocks of neighbours."""

from nlattn.cluster._blocks import SortedBlocks, sort_into_blocks
from nlattn.cluster._codes import cross_polytope_codes, hyperplane_codes, p_stable_codes
from nlattn.cluster._collisions import (
    cross_polytope_collision_probability,
    hyperplane_collision_probability,
    p_stable_collision_probability,
)
from nlattn.cluster._gray import gray_rank
from nlattn.cluster._inner_products import augment_for_inner_products
from nlattn.cluster._k_means import KMeans, kmeans

__all__ = [
    "KMeans",
    "SortedBlocks",
    "augment_for_inner_products",
    "cross_polytope_codes",
    "cross_polytope_collision_probability",
    "gray_rank",
    "hyperplane_codes",
    "hyperplane_collision_probability",
    "kmeans",
    "p_stable_codes",
    "p_stable_collision_probability",
    "sort_into_blocks",
]
