"""Attention methods, one file a method, in the taxonomy of arXiv 2604.01757."""
