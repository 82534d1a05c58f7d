"""What attention methods promise, in functions of a `Subject`: one file for each kind of promise."""
