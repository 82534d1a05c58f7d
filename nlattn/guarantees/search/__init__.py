"""The search behind attention to a tolerance."""
