"""What all bounds share: the record of each, how it enters the catalogue, and how trials are counted against it."""
