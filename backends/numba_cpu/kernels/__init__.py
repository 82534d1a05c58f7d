"""One file a kernel, of the same name and signature as in :mod:`nlattn.kernels`."""
