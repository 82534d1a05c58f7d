"""Bounds and exact moments as functions, each with its hypotheses, a proof in ``proofs/`` and an experiment.

``BOUNDS`` lists them; ``check`` measures one; ``nlattn bounds`` on the command line measures all.
"""

from nlattn.bounds.clusters import monopole_mass, monopole_output, monopole_share, multipole_output
from nlattn.bounds.collision_weights import collision_count_variance, collision_union_variance
from nlattn.bounds.collisions import cross_polytope_collision, hyperplane_collision, p_stable_collision
from nlattn.bounds.embeddings import count_sketch_embedding, gaussian_embedding, srht_embedding
from nlattn.bounds.estimators import frobenius_norm_limit, leave_one_out_mean, spectral_norm_limit, trace_variance
from nlattn.bounds.factor_sampling import khatri_rao_least_squares, khatri_rao_leverage
from nlattn.bounds.feature_design import balanced_mean, optimal_second_moment, stabilised_denominator
from nlattn.bounds.feature_moments import (
    hyperbolic_variance,
    positive_variance,
    trigonometric_variance,
    weighted_positive_variance,
)
from nlattn.bounds.leverage import leverage_sampling, sampled_product_error, sketched_leverage
from nlattn.bounds.nystrom import (
    nystrom_nuclear,
    nystrom_structural_frobenius,
    nystrom_structural_nuclear,
    nystrom_structural_spectral,
)
from nlattn.bounds.orthogonal_features import (
    orthogonal_hyperbolic_variance,
    orthogonal_moment,
    orthogonal_positive_variance,
    orthogonal_trigonometric_variance,
)
from nlattn.bounds.pivoting import (
    pivoted_cholesky_entries,
    pivoted_cholesky_spectral,
    random_pivot_count,
    random_pivot_step,
    random_pivoted_cholesky,
)
from nlattn.bounds.polynomial_moments import (
    polynomial_sketch_variance,
    self_tensored_mean,
    tensor_sketch_kernel_error,
    tensor_sketch_variance,
)
from nlattn.bounds.pseudo_inverse import pseudo_inverse_iteration
from nlattn.bounds.range_finder import (
    range_finder_frobenius,
    range_finder_frobenius_tail,
    range_finder_power,
    range_finder_spectral,
    range_finder_spectral_tail,
)
from nlattn.bounds.registry import BOUNDS, Bound
from nlattn.bounds.regularised_softmax import regularised_softmax, regularised_softmax_variance
from nlattn.bounds.rounding import merge_rounding, online_softmax_rounding
from nlattn.bounds.sampled_normalisers import (
    normaliser_deviation,
    normaliser_mean,
    normaliser_variance,
    normaliser_variance_limit,
)
from nlattn.bounds.sampled_outputs import ratio_error, ratio_identity, ratio_variance
from nlattn.bounds.sampled_products import sampled_attention_spectral, stable_rank_limit, stochastic_norm
from nlattn.bounds.score_estimates import projected_scores, selected_mass, selected_score, transformed_distance
from nlattn.bounds.selection import dropped_mass_divergence, dropped_mass_identity, kept_columns
from nlattn.bounds.single_pass import single_pass_error
from nlattn.bounds.sketch_moments import (
    balanced_count_sketch_variance,
    count_sketch_variance,
    gaussian_variance,
    sketched_product,
    sparse_sign_variance,
    srht_variance,
)
from nlattn.bounds.softmax import entrywise_output, logit_perturbation, normaliser_perturbation
from nlattn.bounds.sparsity import dropped_mass
from nlattn.bounds.tensor_trains import (
    tensor_train_discarded,
    tensor_train_error,
    tensor_train_quasi_optimality,
)
from nlattn.bounds.tensors import (
    hosvd_error,
    randomized_tucker_error,
    sthosvd_error,
    tucker_lower_bound,
    tucker_quasi_optimality,
)
from nlattn.bounds.trials import Outcome, check

__all__ = [
    "frobenius_norm_limit",
    "leave_one_out_mean",
    "spectral_norm_limit",
    "trace_variance",
    "leverage_sampling",
    "sampled_product_error",
    "sketched_leverage",
    "pseudo_inverse_iteration",
    "merge_rounding",
    "online_softmax_rounding",
    "entrywise_output",
    "logit_perturbation",
    "normaliser_perturbation",
    "BOUNDS",
    "Bound",
    "Outcome",
    "balanced_count_sketch_variance",
    "balanced_mean",
    "check",
    "collision_count_variance",
    "collision_union_variance",
    "count_sketch_embedding",
    "count_sketch_variance",
    "cross_polytope_collision",
    "dropped_mass",
    "dropped_mass_divergence",
    "dropped_mass_identity",
    "gaussian_embedding",
    "gaussian_variance",
    "hosvd_error",
    "hyperbolic_variance",
    "hyperplane_collision",
    "kept_columns",
    "khatri_rao_least_squares",
    "khatri_rao_leverage",
    "monopole_mass",
    "monopole_output",
    "monopole_share",
    "multipole_output",
    "normaliser_deviation",
    "normaliser_mean",
    "normaliser_variance",
    "normaliser_variance_limit",
    "nystrom_nuclear",
    "nystrom_structural_frobenius",
    "nystrom_structural_nuclear",
    "nystrom_structural_spectral",
    "optimal_second_moment",
    "orthogonal_hyperbolic_variance",
    "orthogonal_moment",
    "orthogonal_positive_variance",
    "orthogonal_trigonometric_variance",
    "p_stable_collision",
    "pivoted_cholesky_entries",
    "pivoted_cholesky_spectral",
    "polynomial_sketch_variance",
    "positive_variance",
    "projected_scores",
    "random_pivot_count",
    "random_pivot_step",
    "random_pivoted_cholesky",
    "randomized_tucker_error",
    "range_finder_frobenius",
    "range_finder_frobenius_tail",
    "range_finder_power",
    "range_finder_spectral",
    "range_finder_spectral_tail",
    "ratio_error",
    "ratio_identity",
    "ratio_variance",
    "regularised_softmax",
    "regularised_softmax_variance",
    "sampled_attention_spectral",
    "selected_mass",
    "selected_score",
    "self_tensored_mean",
    "single_pass_error",
    "sketched_product",
    "sparse_sign_variance",
    "srht_embedding",
    "srht_variance",
    "stabilised_denominator",
    "stable_rank_limit",
    "sthosvd_error",
    "stochastic_norm",
    "tensor_sketch_kernel_error",
    "tensor_sketch_variance",
    "tensor_train_discarded",
    "tensor_train_error",
    "tensor_train_quasi_optimality",
    "transformed_distance",
    "trigonometric_variance",
    "tucker_lower_bound",
    "tucker_quasi_optimality",
    "weighted_positive_variance",
]
