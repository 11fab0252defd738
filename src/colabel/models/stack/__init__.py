"""Several models of the same labels, joined by what each said about rows it had not seen."""
