"""Every public function of the core on tensors: bit for bit as on NumPy arrays, and with gradients where wanted."""

import copy
import dataclasses
import inspect

import numpy as np
import pytest

from nlattn import cluster, decomp, linalg, sketch

torch = pytest.importorskip("torch")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


A = normal(30, 12) * 0.7 ** np.arange(12)
GRAM = A @ A.T + 1e-3 * np.eye(30)
POINTS, KEYS, ROWS = normal(40, 6), normal(24, 6, seed=1), normal(8, 6, seed=2)
TENSOR = normal(5, 6, 7)
MATRICES = [normal(size, 3, seed=size) for size in TENSOR.shape]
CODES = np.random.default_rng(0).integers(0, 50, 40)

# Function, or class and method -> a call of it, where `c` makes an array of the library.
DIFFERENTIABLE = {
    "linalg.cur": lambda c: linalg.cur(c(A), 4, rng=0),
    "linalg.gaussian_kernel": lambda c: linalg.gaussian_kernel(2.0)(c(POINTS), c(KEYS)),
    "linalg.interpolative_decomposition": lambda c: linalg.interpolative_decomposition(c(A), rtol=0.1, rng=0),
    "linalg.KernelMatrix": lambda c: linalg.KernelMatrix(linalg.gaussian_kernel(2.0), c(POINTS)) @ c(normal(40, 2)),
    "linalg.leverage_scores": lambda c: linalg.leverage_scores(c(A), ridge=0.1, method="sketch", rng=0),
    "linalg.lewis_weights": lambda c: linalg.lewis_weights(c(A), 1.0, rtol=1e-3),
    "linalg.nystrom_approximation": lambda c: linalg.nystrom_approximation(c(GRAM), 4, rng=0),
    "linalg.pivoted_cholesky": lambda c: linalg.pivoted_cholesky(c(GRAM), 6, block=4, rng=0),
    "linalg.pivoted_cholesky of a kernel": lambda c: linalg.pivoted_cholesky(
        linalg.KernelMatrix(linalg.gaussian_kernel(1.0), c(POINTS)), 6, rng=0
    ),
    "linalg.product_probabilities": lambda c: linalg.product_probabilities(c(A.T), c(A)),
    "linalg.importance_sample": lambda c: linalg.importance_sample(c(np.abs(A[:, 0])), 8, replace=False, rng=0),
    "linalg.randomized_svd": lambda c: linalg.randomized_svd(c(A), 4, rng=0),
    "linalg.range_finder": lambda c: linalg.range_finder(c(A), 5, power_iterations=1, rng=0),
    "linalg.sampled_product": lambda c: linalg.sampled_product(c(A.T), c(A), 9, rng=0),
    "linalg.single_pass_svd": lambda c: linalg.single_pass_svd([c(A[:11]), c(A[11:])], 3, rng=0),
    "sketch.balance_query_key": lambda c: sketch.balance_query_key(c(POINTS), c(KEYS)),
    "sketch.count_sketch": lambda c: sketch.count_sketch(7, 40, rng=0).apply(c(POINTS)),
    "sketch.gaussian_sketch": lambda c: sketch.gaussian_sketch(7, 40, rng=0) @ c(POINTS),
    "sketch.sparse_sign_sketch": lambda c: sketch.sparse_sign_sketch(9, 6, rng=0).apply(c(POINTS), axis=1),
    "sketch.srht_sketch": lambda c: sketch.srht_sketch(7, 40, rng=0).apply(c(POINTS)),
    "sketch.sketch_operator": lambda c: sketch.sketch_operator("count", 40, 90, rng=0).T.apply(c(POINTS)),
    "sketch.PolynomialSketch": lambda c: sketch.PolynomialSketch(6, 8, 4, nonnegative=True, rng=0).apply(c(POINTS)),
    "sketch.PolynomialSketch.half": lambda c: sketch.PolynomialSketch(6, 8, 6, nonnegative=True, rng=0).half(c(POINTS)),
    "sketch.TensorSketch": lambda c: sketch.TensorSketch(6, 16, 3, coef0=1.0, rng=0).apply(c(POINTS)),
    "sketch.hadamard_transform": lambda c: sketch.hadamard_transform(c(ROWS), axis=0),
    "sketch.hyperbolic_log_features": lambda c: sketch.hyperbolic_log_features(c(POINTS), c(ROWS), variance=1.2),
    "sketch.positive_log_features": lambda c: sketch.positive_log_features(c(POINTS), c(ROWS)),
    "sketch.trigonometric_features": lambda c: sketch.trigonometric_features(c(POINTS), c(ROWS)),
    "sketch.optimal_covariance": lambda c: sketch.optimal_covariance(c(POINTS), c(KEYS)),
    "sketch.optimal_variance": lambda c: sketch.optimal_variance(c(POINTS), c(KEYS)),
    "sketch.stabilised_features": lambda c: sketch.stabilised_features(c(POINTS), c(KEYS)),
    "cluster.augment_for_inner_products": lambda c: cluster.augment_for_inner_products(
        c(POINTS), c(KEYS), kind="simple"
    ),
    "cluster.hyperplane_collision_probability": lambda c: cluster.hyperplane_collision_probability(
        c(np.linspace(0.1, 3, 9)), 5
    ),
    "cluster.kmeans": lambda c: cluster.kmeans(c(POINTS), 5, rng=0),
    "decomp.cp": lambda c: decomp.cp(c(TENSOR), 2, iterations=5, tol=0, rng=0),
    "decomp.cp from factors": lambda c: decomp.cp(
        c(TENSOR), 3, iterations=2, tol=0, init=decomp.cp(c(TENSOR), 3, iterations=2, tol=0, rng=0)
    ),
    "decomp.fold": lambda c: decomp.fold(c(normal(6, 35)), 1, (5, 6, 7)),
    "decomp.khatri_rao": lambda c: decomp.khatri_rao([c(a) for a in MATRICES]),
    "decomp.mode_product": lambda c: decomp.mode_product(c(TENSOR), c(normal(4, 6)), 1),
    "decomp.mttkrp": lambda c: decomp.mttkrp(c(TENSOR), [c(MATRICES[0]), None, c(MATRICES[2])], 1),
    "decomp.tensor_train": lambda c: decomp.tensor_train(c(TENSOR), rtol=0.5),
    "decomp.tucker": lambda c: decomp.tucker(c(TENSOR), 3, method="hooi"),
    "decomp.unfold": lambda c: decomp.unfold(c(TENSOR), 1),
    "decomp.CPTensor": lambda c: decomp.cp(c(TENSOR), 2, iterations=5, tol=0, rng=0).to_tensor(),
    "decomp.TuckerTensor": lambda c: decomp.tucker(c(TENSOR), 3).to_tensor(),
    "decomp.TensorTrain": lambda c: decomp.tensor_train(c(TENSOR), (3, 4)).to_tensor(),
    "decomp.TensorTrain.round": lambda c: decomp.tensor_train(c(TENSOR), (3, 4)).round(2),
}
# Numbers, codes and draws, whose gradient is none or is not recorded.
OTHERS = {
    "linalg.frobenius_norm_bound": lambda c: linalg.frobenius_norm_bound(c(A), rng=0),
    "linalg.leave_one_out_nystrom": lambda c: linalg.leave_one_out_nystrom(c(GRAM @ A), c(A)),
    "linalg.leave_one_out_range": lambda c: linalg.leave_one_out_range(c(A)),
    "linalg.spectral_norm_bound": lambda c: linalg.spectral_norm_bound(c(A), rng=0),
    "linalg.trace_estimate": lambda c: linalg.trace_estimate(c(GRAM), 8, rng=0),
    "sketch.orthogonal_projection": lambda c: sketch.orthogonal_projection(7, 4, rng=0, like=c(A)),
    "sketch.Sketch": lambda c: sketch.srht_sketch(7, 40, rng=0).matrix(c(A)),
    "cluster.cross_polytope_codes": lambda c: cluster.cross_polytope_codes(c(POINTS), c(ROWS)),
    "cluster.cross_polytope_collision_probability": lambda c: cluster.cross_polytope_collision_probability(
        c(np.asarray([0.5, 1.0])), 8
    ),
    "cluster.gray_rank": lambda c: cluster.gray_rank(c(CODES)),
    "cluster.hyperplane_codes": lambda c: cluster.hyperplane_codes(c(POINTS), c(ROWS)),
    "cluster.p_stable_codes": lambda c: cluster.p_stable_codes(c(POINTS), c(ROWS), c(np.linspace(0, 1, 8)), 2.0),
    "cluster.p_stable_collision_probability": lambda c: cluster.p_stable_collision_probability(
        c(np.asarray([0.0, 1.0])), 4.0
    ),
    "cluster.sort_into_blocks": lambda c: cluster.sort_into_blocks(c(CODES), 7, valid=c(CODES % 3 > 0)),
}
CALLS = DIFFERENTIABLE | OTHERS


def leaves(result):
    """The arrays and values of a result, in order."""
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    if dataclasses.is_dataclass(result):
        return leaves([getattr(result, field.name) for field in dataclasses.fields(result)])
    return [result]


@pytest.mark.parametrize("name", CALLS)
def test_tensors_give_the_bits_of_numpy(name):
    expected = leaves(CALLS[name](copy.copy))
    found = leaves(CALLS[name](torch.tensor))
    for got, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, np.ndarray | np.generic):
            assert isinstance(got, torch.Tensor)
            assert got.numpy().dtype == wanted.dtype
            np.testing.assert_array_equal(got.numpy(), wanted)
        else:
            assert type(got) is type(wanted)
            np.testing.assert_equal(got, wanted)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_flow_where_they_are_wanted(name):
    inputs = []

    def recorded(array):
        tensor = torch.tensor(array, requires_grad=np.asarray(array).dtype.kind == "f")
        inputs.extend([tensor] * tensor.requires_grad)
        return tensor

    found = [leaf for leaf in leaves(CALLS[name](recorded)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    assert bool(found) == (name in DIFFERENTIABLE)
    if found:
        gradients = torch.autograd.grad(sum(leaf.sum() for leaf in found), inputs, allow_unused=True)
        assert any(gradient is not None and bool(torch.any(gradient != 0)) for gradient in gradients)


def test_no_public_function_is_left_out():
    named = {name.split(" of ")[0].split(" from ")[0] for name in CALLS}
    for package in (linalg, sketch, cluster, decomp):
        for name, value in vars(package).items():
            # Results that are tuples have no methods of their own.
            public = name in package.__all__ and not (inspect.isclass(value) and issubclass(value, tuple))
            assert not public or f"{package.__name__.removeprefix('nlattn.')}.{name}" in named, name
