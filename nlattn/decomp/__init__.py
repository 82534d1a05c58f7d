"""Tensor decompositions."""
