"""Sketches and random features."""
