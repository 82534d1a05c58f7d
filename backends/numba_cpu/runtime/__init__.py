"""What kernels need around their loops: compilation and its cache, the pool of threads, memory layout."""
