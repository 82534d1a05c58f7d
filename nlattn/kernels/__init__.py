"""The hot kernels. Each file holds a generic array-API version, which is the specification of all backends.

All arrays of a call share one namespace and one device. A kernel allocates its results, draws no random numbers and
leaves its inputs alone.
"""
