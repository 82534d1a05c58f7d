"""Errors after the fact, and attention to a tolerance."""
