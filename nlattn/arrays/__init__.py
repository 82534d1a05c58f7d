"""Everything that depends on an array library: types, precision, rows, guards, values on the host, draws, PyTorch."""
