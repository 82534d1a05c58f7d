"""Randomised numerical linear algebra."""

from nlattn.linalg.cholesky import PivotedCholesky, pivoted_cholesky
from nlattn.linalg.interpolative import CUR, InterpolativeDecomposition, cur, interpolative_decomposition
from nlattn.linalg.leave_one_out import leave_one_out_nystrom, leave_one_out_range
from nlattn.linalg.leverage import leverage_scores, lewis_weights
from nlattn.linalg.norms import NormBound, frobenius_norm_bound, spectral_norm_bound
from nlattn.linalg.nystrom import Eigen, nystrom_approximation
from nlattn.linalg.psd import KernelMatrix, gaussian_kernel
from nlattn.linalg.ranges import range_finder
from nlattn.linalg.sampling import Sample, importance_sample, product_probabilities, sampled_product
from nlattn.linalg.single_pass import single_pass_svd
from nlattn.linalg.svd import SVD, randomized_svd
from nlattn.linalg.trace import TraceEstimate, trace_estimate

__all__ = [
    "CUR",
    "SVD",
    "Eigen",
    "InterpolativeDecomposition",
    "KernelMatrix",
    "NormBound",
    "PivotedCholesky",
    "Sample",
    "TraceEstimate",
    "cur",
    "frobenius_norm_bound",
    "gaussian_kernel",
    "importance_sample",
    "interpolative_decomposition",
    "leave_one_out_nystrom",
    "leave_one_out_range",
    "leverage_scores",
    "lewis_weights",
    "nystrom_approximation",
    "pivoted_cholesky",
    "product_probabilities",
    "randomized_svd",
    "range_finder",
    "sampled_product",
    "single_pass_svd",
    "spectral_norm_bound",
    "trace_estimate",
]
