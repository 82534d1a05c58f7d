"""Tensor decompositions: CP, Tucker and tensor trains, to given ranks or to a tolerance."""

from nlattn.decomp._canonical import cp
from nlattn.decomp._columnwise import khatri_rao, mttkrp
from nlattn.decomp._cp_tensor import CPTensor
from nlattn.decomp._multilinear import tucker
from nlattn.decomp._successive import tensor_train
from nlattn.decomp._trains import TensorTrain
from nlattn.decomp._tucker_tensor import TuckerTensor
from nlattn.decomp._unfolding import fold, mode_product, unfold

__all__ = [
    "CPTensor",
    "TensorTrain",
    "TuckerTensor",
    "cp",
    "fold",
    "khatri_rao",
    "mode_product",
    "mttkrp",
    "tensor_train",
    "tucker",
    "unfold",
]
