"""Sketches and random features."""

from nlattn.sketch._balancing import BalancedPair, balance_query_key
from nlattn.sketch._base import Sketch
from nlattn.sketch._factory import sketch_operator
from nlattn.sketch._gaussian import gaussian_sketch
from nlattn.sketch._hadamard import hadamard_transform
from nlattn.sketch._importance import FeatureCovariance, optimal_covariance, optimal_variance
from nlattn.sketch._polynomial import PolynomialSketch
from nlattn.sketch._positive import hyperbolic_log_features, positive_log_features
from nlattn.sketch._projections import orthogonal_projection
from nlattn.sketch._sparse import count_sketch, sparse_sign_sketch
from nlattn.sketch._srht import srht_sketch
from nlattn.sketch._stabilisation import StabilisedFeatures, stabilised_features
from nlattn.sketch._tensor import TensorSketch
from nlattn.sketch._trigonometric import trigonometric_features

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
