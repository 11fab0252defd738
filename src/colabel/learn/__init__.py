"""Learning: regressions in batches (`glm`), structures (`structure`), conditional models."""
