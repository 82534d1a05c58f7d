"""From a problem to the keys that its rows should meet."""
