"""Moments of sketches and of random features, and how well a sketch preserves a subspace."""
