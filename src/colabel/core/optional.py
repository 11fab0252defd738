"""Packages that are not always installed: a sentence instead of a bare ImportError."""

from __future__ import annotations


def require(package: str, what: str, instead: str = "") -> None:
    """Raise an ImportError that says what to install, unless a package is there.

    Parameters
    ----------
    package : str
    what : str
        What needs it, as the beginning of a sentence.
    instead : str
        How to do without, as its end.

    Examples
    --------
    >>> require("pandas", "A data frame")
    """
    try:
        __import__(package)
    except ImportError:
        raise ImportError(
            f"{what} needs {package}, which is not installed: run pip install {package}{instead}."
        ) from None
