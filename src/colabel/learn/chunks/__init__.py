"""Learning from rows that are never together: on a cluster, or in files larger than memory.

`ChunkedData` stands for the rows, wherever Dask has them. What is asked of them are sums, each a
pure function of a chunk and of small arrays: nothing that is as long as the rows is held but a
few bytes each (their folds), and a chunk that is lost with its worker is computed again.
"""
