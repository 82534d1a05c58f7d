"""How often hash codes agree, and sums over the keys that meet a query."""
