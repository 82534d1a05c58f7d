"""From a problem and a selection of keys to attention over the selected ones."""
