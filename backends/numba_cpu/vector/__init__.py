"""What compiled kernels call inside their loops: products, exponentials, running softmax sums."""
