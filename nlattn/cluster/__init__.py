"""Clustering of queries and keys."""
