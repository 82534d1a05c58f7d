"""Fast versions of the kernels of :mod:`nlattn.kernels`, one package a backend, one file a kernel.

The folder lies beside ``nlattn`` and is installed as ``nlattn.backends``.
"""

if __name__ != "nlattn.backends":
    raise ImportError(f"this package is installed and imported as nlattn.backends, not as {__name__}")
