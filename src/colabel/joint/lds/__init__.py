"""The generative mixture over label dependency sets, and the posterior of its labels."""
