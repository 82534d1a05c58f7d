"""What every attention method promises: one file a promise, in functions of a `Subject`."""
