"""Methods that choose which keys a query meets."""
