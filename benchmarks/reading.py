"""Tables: rows read and predicted in a second of processor, wide tables, small files that unpack.

Usage: python -m benchmarks.reading [--rows 1000000] [--columns 300000] [--against SRC]
       [--folder DIR]

Draws 64 features and 7 labels in Parquet and CSV, fits a CTBN to 20,000 of the rows, and runs
`colabel predict` and `read_frame` in processes of their own; then reads a CSV file of many columns,
and one whose 1.2 MB unpack to 240 MB. With `--against` the folder `src` of another version does the
same, one after the other on the same files.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from benchmarks._common import ROOT, machine, print_table
from benchmarks._measuring import Cost, measured
from benchmarks._row_parts import FEATURE_NAMES, draw

_COLABEL = [sys.executable, "-c", "from colabel.cli import main; main()"]
_READ = "import sys; from colabel.tables import read_frame; print(read_frame(sys.argv[1]))"
_STREAM = (
    "import sys; from colabel.tables import open_table, read_chunks; s = open_table(sys.argv[1]);"
    "print(sum(f.n_rows for f in read_chunks(s, dict.fromkeys(s.names, 'number'))))"
)


def main() -> None:
    """Draw, read, predict."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--columns", type=int, default=300_000)
    options.add_argument("--against", type=Path)
    options.add_argument("--folder", type=Path, help="where the files go for a while")
    given = options.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        draw(folder, given.rows, given.rows)
        table = parquet.read_table(folder / "part-0000.parquet")
        features = folder / "new.parquet"
        parquet.write_table(table.select(FEATURE_NAMES), features, compression="none")
        arrow_csv.write_csv(table.select(FEATURE_NAMES), folder / "new.csv")
        arrow_csv.write_csv(table.slice(0, 20_000), folder / "train.csv")
        rng = np.random.default_rng(0)
        with (folder / "wide.csv").open("w") as text:
            print(",".join(f"column_{j}" for j in range(given.columns)), file=text)
            for _ in range(20):
                print(",".join(rng.integers(0, 9, given.columns).astype(str)), file=text)
        with gzip.open(folder / "bomb.csv.gz", "wb") as raw:
            raw.write(b"a,b,c\n" + b"0,1,0.5\n" * 30_000_000)
        lines = []
        for tree in (given.against, ROOT / "src") if given.against else (ROOT / "src",):
            os.environ["PYTHONPATH"] = str(tree)
            for line in _measure(folder, given.rows, given.columns):
                lines.append([tree.parent.name, *line])
                print(lines[-1], flush=True)
        print_table(["version", "what", "seconds of processor", "rows a second", "peak"], lines)


def _measure(folder: Path, n_rows: int, n_columns: int) -> Iterator[list[str]]:
    fit: list[str | Path] = [
        *_COLABEL,
        "fit",
        folder / "train.csv",
        "-l",
        "y*",
        "-q",
        "--set",
        "C=1.0",
    ]
    measured([*fit, "-o", folder / "model.colabel"])

    def line(what: str, cost: Cost, rows: int) -> list[str]:
        speed = f"{rows / cost.processor:,.0f}"
        return [what, f"{cost.processor:.1f}", speed, f"{cost.peak_mb:.0f} MB"]

    for ending in ("csv", "parquet"):
        file = folder / f"new.{ending}"
        out: list[str | Path] = ["-o", folder / f"out.{ending}"]
        predict: list[str | Path] = [
            *_COLABEL,
            "predict",
            folder / "model.colabel",
            file,
            *out,
            "-q",
        ]
        yield line(f"predict {ending}", measured(predict), n_rows)
        yield line(f"read {ending}", measured([sys.executable, "-c", _READ, file]), n_rows)
    wide = measured([sys.executable, "-c", _READ, folder / "wide.csv"])
    yield line(f"read {n_columns:,} columns of 20 rows", wide, 20)
    bomb = measured([sys.executable, "-c", _STREAM, folder / "bomb.csv.gz"])
    yield line("stream 240 MB from a small .gz", bomb, 30_000_000)


if __name__ == "__main__":
    main()
