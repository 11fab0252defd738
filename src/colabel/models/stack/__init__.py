"""Several models of the same labels, pooled by their held-out likelihood."""
