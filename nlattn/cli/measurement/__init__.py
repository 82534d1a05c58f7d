"""The rows of a comparison: what is called, and its error, time and memory."""
