"""Learning pairwise conditional random fields: pseudo-likelihood, structure, penalties.

A field has node scores for every value of every label and a table of scores for every edge, each
linear in features. `PseudoLikelihood` is what is maximised, `learn_structure` finds the graph,
`tune` the parameters on it; `FieldLearner` puts them together and chooses the penalties.
"""
