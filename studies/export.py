"""Results as a tidy table in a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from studies.store import Row


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV or Parquet, by the ending of the file's name."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(Row._fields)
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        import pandas as pd

        pd.DataFrame(list(rows), columns=list(Row._fields)).to_parquet(path, index=False)
    else:
        raise ValueError(f"{path} is neither .csv nor .parquet: name one of these.")
