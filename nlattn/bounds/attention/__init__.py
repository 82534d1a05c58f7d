"""What attention loses: by perturbed or rounded scores, dropped or sampled keys, and clusters in place of keys."""
