"""The error of an output, measured after the fact, and attention to a tolerance."""
