"""What the commands are given: options, files and samples, checked."""
