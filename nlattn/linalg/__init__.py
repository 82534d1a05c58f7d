"""Randomised numerical linear algebra."""

from nlattn.linalg._cholesky import pivoted_cholesky
from nlattn.linalg._cur import CUR, cur
from nlattn.linalg._interpolative import InterpolativeDecomposition, interpolative_decomposition
from nlattn.linalg._kernel_matrix import KernelMatrix, gaussian_kernel
from nlattn.linalg._leave_one_out import leave_one_out_nystrom, leave_one_out_range
from nlattn.linalg._leverage import leverage_scores
from nlattn.linalg._lewis import lewis_weights
from nlattn.linalg._norms import NormBound, frobenius_norm_bound, spectral_norm_bound
from nlattn.linalg._nystrom import Eigen, nystrom_approximation
from nlattn.linalg._pivoting import PivotedCholesky
from nlattn.linalg._products import product_probabilities, sampled_product
from nlattn.linalg._ranges import range_finder
from nlattn.linalg._sampling import Sample, importance_sample
from nlattn.linalg._single_pass import single_pass_svd
from nlattn.linalg._svd import SVD, randomized_svd
from nlattn.linalg._trace import TraceEstimate, trace_estimate

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
