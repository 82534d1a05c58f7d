"""Bounds and exact moments as functions, each with its hypotheses, a proof and an experiment.

``BOUNDS`` lists them, ``check`` measures one, and ``nlattn bounds`` on the command line prints and measures all. The
statements stand in packages named after what they are about; ``catalogue`` holds what all of them share.
"""

from nlattn.bounds.attention.cluster_moments import monopole_mass, monopole_output, monopole_share, multipole_output
from nlattn.bounds.attention.dropped_keys import (
    dropped_mass,
    dropped_mass_divergence,
    dropped_mass_identity,
    kept_columns,
)
from nlattn.bounds.attention.perturbed_softmax import entrywise_output, logit_perturbation, normaliser_perturbation
from nlattn.bounds.attention.rounding import merge_rounding, online_softmax_rounding
from nlattn.bounds.attention.sampled_normalisers import (
    normaliser_deviation,
    normaliser_mean,
    normaliser_variance,
    normaliser_variance_limit,
)
from nlattn.bounds.attention.sampled_outputs import ratio_error, ratio_identity, ratio_variance
from nlattn.bounds.attention.sampled_products import sampled_attention_spectral, stable_rank_limit, stochastic_norm
from nlattn.bounds.attention.score_estimates import (
    projected_scores,
    selected_mass,
    selected_score,
    transformed_distance,
)
from nlattn.bounds.catalogue.record import BOUNDS, Bound
from nlattn.bounds.catalogue.trials import Outcome, check
from nlattn.bounds.cluster.collision_weights import collision_count_variance, collision_union_variance
from nlattn.bounds.cluster.collisions import cross_polytope_collision, hyperplane_collision, p_stable_collision
from nlattn.bounds.decomp.khatri_rao import khatri_rao_least_squares, khatri_rao_leverage
from nlattn.bounds.decomp.tensor_trains import tensor_train_discarded, tensor_train_error, tensor_train_quasi_optimality
from nlattn.bounds.decomp.tucker import (
    hosvd_error,
    randomized_tucker_error,
    sthosvd_error,
    tucker_lower_bound,
    tucker_quasi_optimality,
)
from nlattn.bounds.linalg.estimators import (
    frobenius_norm_limit,
    leave_one_out_mean,
    spectral_norm_limit,
    trace_variance,
)
from nlattn.bounds.linalg.leverage import leverage_sampling, sampled_product_error, sketched_leverage
from nlattn.bounds.linalg.nystrom import (
    nystrom_nuclear,
    nystrom_structural_frobenius,
    nystrom_structural_nuclear,
    nystrom_structural_spectral,
)
from nlattn.bounds.linalg.pivoting import (
    pivoted_cholesky_entries,
    pivoted_cholesky_spectral,
    random_pivot_count,
    random_pivot_step,
    random_pivoted_cholesky,
)
from nlattn.bounds.linalg.pseudo_inverse import pseudo_inverse_iteration
from nlattn.bounds.linalg.range_finder import (
    range_finder_frobenius,
    range_finder_frobenius_tail,
    range_finder_power,
    range_finder_spectral,
    range_finder_spectral_tail,
)
from nlattn.bounds.linalg.single_pass import single_pass_error
from nlattn.bounds.sketch.embeddings import count_sketch_embedding, gaussian_embedding, srht_embedding
from nlattn.bounds.sketch.feature_design import balanced_mean, optimal_second_moment, stabilised_denominator
from nlattn.bounds.sketch.independent_features import (
    hyperbolic_variance,
    positive_variance,
    trigonometric_variance,
    weighted_positive_variance,
)
from nlattn.bounds.sketch.inner_products import (
    balanced_count_sketch_variance,
    count_sketch_variance,
    gaussian_variance,
    sketched_product,
    sparse_sign_variance,
    srht_variance,
)
from nlattn.bounds.sketch.orthogonal_features import (
    orthogonal_hyperbolic_variance,
    orthogonal_moment,
    orthogonal_positive_variance,
    orthogonal_trigonometric_variance,
)
from nlattn.bounds.sketch.polynomial_kernels import (
    polynomial_sketch_variance,
    self_tensored_mean,
    tensor_sketch_kernel_error,
    tensor_sketch_variance,
)
from nlattn.bounds.sketch.sphere_features import regularised_softmax, regularised_softmax_variance

__all__ = [
    "BOUNDS",
    "Bound",
    "Outcome",
    "check",
    "balanced_count_sketch_variance",
    "balanced_mean",
    "collision_count_variance",
    "collision_union_variance",
    "count_sketch_embedding",
    "count_sketch_variance",
    "cross_polytope_collision",
    "dropped_mass",
    "dropped_mass_divergence",
    "dropped_mass_identity",
    "entrywise_output",
    "frobenius_norm_limit",
    "gaussian_embedding",
    "gaussian_variance",
    "hosvd_error",
    "hyperbolic_variance",
    "hyperplane_collision",
    "kept_columns",
    "khatri_rao_least_squares",
    "khatri_rao_leverage",
    "leave_one_out_mean",
    "leverage_sampling",
    "logit_perturbation",
    "merge_rounding",
    "monopole_mass",
    "monopole_output",
    "monopole_share",
    "multipole_output",
    "normaliser_deviation",
    "normaliser_mean",
    "normaliser_perturbation",
    "normaliser_variance",
    "normaliser_variance_limit",
    "nystrom_nuclear",
    "nystrom_structural_frobenius",
    "nystrom_structural_nuclear",
    "nystrom_structural_spectral",
    "online_softmax_rounding",
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
    "pseudo_inverse_iteration",
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
    "sampled_product_error",
    "selected_mass",
    "selected_score",
    "self_tensored_mean",
    "single_pass_error",
    "sketched_leverage",
    "sketched_product",
    "sparse_sign_variance",
    "spectral_norm_limit",
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
    "trace_variance",
    "transformed_distance",
    "trigonometric_variance",
    "tucker_lower_bound",
    "tucker_quasi_optimality",
    "weighted_positive_variance",
]
