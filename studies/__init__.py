"""The papers' laboratory: plans, runs, and what became of the papers' figures and claims."""
