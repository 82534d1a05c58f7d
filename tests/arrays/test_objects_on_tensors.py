"""Results, kernel matrices, operators and sketches where the arrays are tensors."""

import copy

import numpy as np
import pytest

from nlattn.cluster import gray_rank, kmeans, sort_into_blocks
from nlattn.decomp import TensorTrain, tensor_train
from nlattn.linalg import (
    KernelMatrix,
    gaussian_kernel,
    pivoted_cholesky,
    randomized_svd,
    single_pass_svd,
)
from nlattn.sketch import TensorSketch, balance_query_key, gaussian_sketch

torch = pytest.importorskip("torch")


def tensor(*shape, **options):
    return torch.tensor(np.random.default_rng(0).standard_normal(shape), **options)


def test_results_of_decompositions_hold_tensors():
    train = tensor_train(tensor(4, 5, 6), (3, 4))
    assert all(isinstance(core, torch.Tensor) for core in train.cores)
    assert type(train.error) is float
    assert isinstance(train.to_tensor(), torch.Tensor)
    assert isinstance(train.round(2), TensorTrain)
    wanted = [core.clone().requires_grad_() for core in train.cores]
    TensorTrain(cores=tuple(wanted), error=0.0).round(2).to_tensor().sum().backward()
    assert all(core.grad is not None for core in wanted)


def test_kernel_matrices():
    """That of the package's own kernel is lent; one's own function of tensors is called with tensors."""
    points = tensor(20, 3)
    lent = pivoted_cholesky(KernelMatrix(gaussian_kernel(1.0), points), 4, rng=0)
    host = pivoted_cholesky(KernelMatrix(gaussian_kernel(1.0), points.numpy()), 4, rng=0)
    np.testing.assert_array_equal(lent.factor.numpy(), host.factor)
    kinds = []

    def kernel(x, y):
        kinds.append(type(x))
        return torch.exp(-(torch.cdist(x, y) ** 2) / 2)

    own = pivoted_cholesky(KernelMatrix(kernel, points), 4, rng=0)
    assert set(kinds) == {torch.Tensor}
    torch.testing.assert_close(own.factor, lent.factor)


def test_operators_and_iterators_stay_generic():
    a = tensor(9, 4)

    class Wrapped:
        shape, like = (9, 4), a

        def __matmul__(self, x):
            assert isinstance(x, torch.Tensor)
            return a @ x

        def adjoint(self):
            return a.T

    found = randomized_svd(Wrapped(), 2, rng=0)
    torch.testing.assert_close(found.S, randomized_svd(a, 2, rng=0).S)
    single = single_pass_svd((a[i : i + 3] for i in (0, 3, 6)), 2, rng=0)
    torch.testing.assert_close(single.S, single_pass_svd([a[:3], a[3:6], a[6:]], 2, rng=0).S)


def test_sketches_hold_nothing_of_the_caller():
    x = tensor(30, 4)
    for sketch in (gaussian_sketch(3, 30, rng=0), gaussian_sketch(30, 3, rng=0).T):
        assert torch.equal(sketch @ x, torch.from_numpy(sketch @ x.numpy()))
    features = TensorSketch(4, 8, rng=0)
    assert torch.equal(features.apply(x), torch.from_numpy(features.apply(x.numpy())))

    class Mine(TensorSketch):
        pass

    torch.testing.assert_close(Mine(4, 8, rng=0).apply(x), features.apply(x))


def test_results_that_are_arguments_share_their_memory():
    q, k = tensor(5, 3), tensor(4, 3)
    balanced = balance_query_key(q, k, kind="none", centre=False)
    assert balanced.query.data_ptr() == q.data_ptr()


def test_draws_and_seeds_are_untouched():
    x, rng = tensor(20, 2), np.random.default_rng(0)
    other = copy.deepcopy(rng)
    found, expected = kmeans(x, 3, rng=rng), kmeans(x.numpy(), 3, rng=other)
    np.testing.assert_array_equal(found.centres.numpy(), expected.centres)
    assert rng.random() == other.random()


def test_integers():
    codes = torch.tensor([3, 1, 2])
    assert gray_rank(codes).dtype == torch.int64
    assert sort_into_blocks(codes, 2).used.dtype == torch.bool
