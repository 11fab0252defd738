"""Forests grown by scikit-learn, kept as plain arrays and walked by compiled loops."""
