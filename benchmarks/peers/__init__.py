"""All methods of the field on the same folds: ours, scikit-learn, boosting libraries, BOOMER.

`python -m benchmarks.peers run` fills a store of cells, one for each data set, method and fold;
`python -m benchmarks.peers table` draws what is in it. `make peers` does both.
"""
