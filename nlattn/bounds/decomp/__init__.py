"""Errors of Tucker decompositions and tensor trains, and of least squares on sampled rows of a Khatri-Rao product."""
