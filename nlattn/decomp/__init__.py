"""Tensor decompositions: CP, Tucker and tensor trains, to given ranks or to a tolerance."""

from nlattn.decomp.canonical import cp
from nlattn.decomp.columnwise import khatri_rao, mttkrp
from nlattn.decomp.multilinear import tucker
from nlattn.decomp.results import CPTensor, TuckerTensor
from nlattn.decomp.successive import tensor_train
from nlattn.decomp.trains import TensorTrain
from nlattn.decomp.unfolding import fold, mode_product, unfold

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
