"""Sketches and random features."""

from nlattn.sketch.balancing import BalancedPair, balance_query_key
from nlattn.sketch.base import Sketch
from nlattn.sketch.factory import sketch_operator
from nlattn.sketch.gaussian import gaussian_sketch
from nlattn.sketch.hadamard import hadamard_transform, srht_sketch
from nlattn.sketch.importance import FeatureCovariance, optimal_covariance, optimal_variance
from nlattn.sketch.polynomial import PolynomialSketch
from nlattn.sketch.positive import hyperbolic_log_features, positive_log_features
from nlattn.sketch.projections import orthogonal_projection
from nlattn.sketch.sparse import count_sketch, sparse_sign_sketch
from nlattn.sketch.stabilisation import StabilisedFeatures, stabilised_features
from nlattn.sketch.tensor import TensorSketch
from nlattn.sketch.trigonometric import trigonometric_features

__all__ = [
    "BalancedPair",
    "FeatureCovariance",
    "PolynomialSketch",
    "Sketch",
    "StabilisedFeatures",
    "TensorSketch",
    "balance_query_key",
    "count_sketch",
    "gaussian_sketch",
    "hadamard_transform",
    "hyperbolic_log_features",
    "optimal_covariance",
    "optimal_variance",
    "orthogonal_projection",
    "positive_log_features",
    "sketch_operator",
    "sparse_sign_sketch",
    "srht_sketch",
    "stabilised_features",
    "trigonometric_features",
]
