"""Randomised numerical linear algebra."""
