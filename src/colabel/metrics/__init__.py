"""Measures of label vectors that scikit-learn lacks, or has for 0/1 labels only.

All take labels in any container that `colabel.labels.LabelSpace` reads. Two words are used below.

*0/1 labels* are matrices, sparse matrices and sets in which no value but 0 and 1 occurs: a row is
the set M of its labels. *Class variables* are everything else, a 1-d y of 0 and 1 included, as in
scikit-learn: a row is the set M of its d pairs (variable, value).

Predictions may hold values that the truth does not. Where truth and prediction are both sets of
labels, the labels are those that occur in either; two data frames are matched by column name.

References
----------
.. [1] R. Simha and H. Shatkay, Improved Multi-Label Classification Using Inter-Dependence
   Structure via a Generative Mixture Model, section 4.1.
.. [2] S. Briesemeister, J. Rahnenführer and O. Kohlbacher, Going from where to why – interpretable
   prediction of protein subcellular localization, Bioinformatics 26(9), 2010.
"""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
