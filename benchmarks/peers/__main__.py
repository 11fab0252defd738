"""Run the cells of the peers' table, and draw it.

Usage: python -m benchmarks.peers run [--sets emotions ...] [--methods RF ...] [--peers | --ours]
       [--folds 10] [--jobs 2] [--limit 40] [--our-limit 300] [--again] [--store .peers]
       [--data DIR]
       python -m benchmarks.peers table [--store .peers]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks._common import ROOT, data_folder, machine
from benchmarks.peers.methods import METHODS
from benchmarks.peers.running import SETS, Limits, run, write_data
from benchmarks.peers.store import N_FOLDS, Store


def _parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__.split("\n")[0])
    commands = result.add_subparsers(dest="command", required=True)
    filling = commands.add_parser("run", help="run the cells that are not in the store")
    drawing = commands.add_parser("table", help="write the tables of what is in the store")
    for command in (filling, drawing):
        command.add_argument("--store", type=Path, default=ROOT / ".peers", help="folder of cells")
    filling.add_argument("--data", type=Path, default=data_folder(), help="folder of data sets")
    filling.add_argument("--sets", nargs="+", default=list(SETS), help="of the folder of data sets")
    which = filling.add_mutually_exclusive_group()
    which.add_argument(
        "--methods", nargs="+", choices=list(METHODS), help="by default all peers, and JointStack"
    )
    which.add_argument("--peers", action="store_true", help="all methods that are not colabel's")
    which.add_argument("--ours", action="store_true", help="all models of colabel")
    filling.add_argument("--folds", type=int, default=N_FOLDS, help="how many of the ten folds")
    filling.add_argument("--jobs", type=int, default=2, help="cells at once, of one thread each")
    filling.add_argument("--limit", type=float, default=40.0, help="CPU seconds of a peer's cell")
    filling.add_argument("--our-limit", type=float, default=300.0, help="the same of ours")
    filling.add_argument("--again", action="store_true", help="also cells that are in the store")
    return result


def main() -> None:
    """Do what the command line says."""
    asked = _parser().parse_args()
    store = Store(asked.store)
    if asked.command == "table":
        from benchmarks.peers.table import write_tables

        write_tables(store)
        return
    methods = asked.methods or [
        name for name, method in METHODS.items() if method.ours == asked.ours
    ]
    if not (asked.methods or asked.peers or asked.ours):
        # The other models of ours would take longer than all of these. This one takes longest, so
        # that it comes first of a set's: at the end no core waits for it.
        methods.insert(0, "JointStack")
    print(machine(), flush=True)
    for dataset in asked.sets:
        write_data(store, dataset, asked.data)
    limits = Limits(asked.limit, asked.our_limit)
    run(store, asked.sets, methods, asked.folds, limits, asked.jobs, asked.again)


if __name__ == "__main__":
    main()
