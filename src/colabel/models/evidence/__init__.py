"""What speaks for the labels of a row: its columns, its other labels, the label sets beside them.

Records that answer for themselves, each with the function that asks a model or a joint for it.
"""
