"""Inputs that cannot work: how each is made, and the command that meets it.

Run as a program, `python -m tests.cli.malformed FOLDER`, it runs every case in one process and
prints what became of each as a line of JSON: one process, so that its peak memory bounds them all.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import resource
import signal
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HEADER = "size,weight,colour,tag_a,tag_b\n"
LINE = "{},{},{},{},{}\n"
CASES: dict[str, Callable[[Path], Any]] = {}
SECONDS = 30  # a case that takes longer hangs


def case(function):
    CASES[function.__name__] = function
    return function


def rows(n: int = 24) -> list[str]:
    return [
        LINE.format(i % 7, (i * i) % 5, "red" if i % 2 else "blue", i % 2, (i // 2) % 2)
        for i in range(n)
    ]


def table(folder: Path, content: str | bytes | None = None, name: str = "data.csv") -> Path:
    file = folder / name
    if content is None:
        content = HEADER + "".join(rows())
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def fit(folder: Path, file: Path | str, *options: str, labels: str = "tag_*") -> list[str]:
    chosen = ["--labels", labels, "-m", "br", "--set", "C=1.0", "-o", str(folder / "m.colabel")]
    return ["fit", str(file), *chosen, *options]


def fitted(content: str | bytes | None = None, *options: str, **more: str) -> Callable[[Path], Any]:
    """The case of a table that is fitted."""
    name, labels = more.get("name", "data.csv"), more.get("labels", "tag_*")
    return lambda folder: fit(folder, table(folder, content, name), *options, labels=labels)


def compared(*options: str) -> Callable[[Path], Any]:
    """The case of a table on which models are compared."""
    return lambda folder: ["compare", str(table(folder)), "--labels", "tag_*", *options]


def with_line(line: str, at: int = 12) -> str:
    lines = rows()
    return HEADER + "".join([*lines[:at], line, *lines[at:]])


# ------------------------------------------------------------------------------------ files


@case
def a_folder(folder):
    (folder / "d.csv").mkdir()
    return fit(folder, folder / "d.csv")


CASES |= {
    "no_such_file": lambda folder: fit(folder, folder / "absent.csv"),
    "no_gzip_at_all": fitted(name="data.csv.gz"),
    "unknown_ending": fitted(name="data.xlsx"),
    "empty_file": fitted(""),
    "header_only": fitted(HEADER),
    "one_row": fitted(HEADER + rows(1)[0]),
    "cut_short": fitted((HEADER + "".join(rows()))[:-5]),
    "row_too_long": fitted(with_line("1,2,red,0,1,9\n")),
    "latin_1": fitted(with_line("1,2,café,0,1\n").encode("latin-1")),
    "unknown_encoding": fitted(None, "--encoding", "klingon"),
    "binary_noise": fitted(np.random.default_rng(0).bytes(5000)),
    "zero_bytes": fitted(b"a\x00,b\x00\n1,2\n", labels="b*"),
    "duplicated_columns": fitted("size,size,tag_a,tag_b\n1,2,0,1\n2,1,1,0\n"),
    "unnamed_column": fitted("size,,tag_a,tag_b\n1,2,0,1\n2,1,1,0\n"),
    "unclosed_quote": fitted(with_line('1,2,"red,0,1\n')),
}


@case
def endless_line_compressed(folder):
    file = folder / "data.csv.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for _ in range(96):
            stream.write(b"1" * (1 << 20))
    return fit(folder, file)


@case
def truncated_gzip(folder):
    content = gzip.compress((HEADER + "".join(rows(2000))).encode())
    return fit(folder, table(folder, content[: len(content) // 2], "data.csv.gz"))


# ------------------------------------------------------------------------- values and columns


CASES |= {
    "infinity": fitted(with_line("inf,2,red,0,1\n")),
    "beyond_infinity": fitted(with_line("-1e999,2,red,0,1\n")),
    "too_large_to_square": fitted(with_line("1e200,2,red,0,1\n")),
    "text_among_numbers": fitted(with_line("twelve,2,red,0,1\n")),
    "underscore_in_number": fitted(with_line("1_000,2,red,0,1\n")),
    "label_absent": fitted(labels="tag_z"),
    "glob_without_match": fitted(labels="label_*"),
    "list_absent": lambda folder: fit(folder, table(folder), labels=f"@{folder / 'absent.txt'}"),
}


@case
def list_empty(folder):
    (folder / "names.txt").write_text("\n\n")
    return fit(folder, table(folder), labels=f"@{folder / 'names.txt'}")


@case
def list_of_noise(folder):
    (folder / "names.txt").write_bytes(b"\xff\xfe\x00")
    return fit(folder, table(folder), labels=f"@{folder / 'names.txt'}")


CASES |= {
    "label_with_fractions": fitted(HEADER + "".join(r.replace(",1\n", ",0.5\n") for r in rows())),
    "labels_all_missing": fitted(HEADER + "".join("1,2,red,,\n2,1,blue,NaN,?\n" * 4)),
    "only_labels": fitted(labels="*"),
    "only_constant_features": fitted("size,tag_a\n" + "1,0\n1,1\n" * 6),
    "label_to_be_dropped": fitted(None, "--drop", "tag_a"),
    "separator_for_several": fitted(None, "--separator", ";"),
}


@case
def too_many_tags(folder):
    lines = [f"{i},x\n" for i in range(3)]
    with_tags = ["1," + ";".join(f"t{i}" for i in range(k, 20_001, 2)) + "\n" for k in (0, 1)]
    return fit(folder, table(folder, "size,tags\n" + "".join(lines + with_tags)), labels="tags")


CASES |= {
    "delimiter_too_long": fitted(None, "--delimiter", "::"),
    "unknown_model": fitted(None, "-m", "ctnb"),
    "unknown_setting": fitted(None, "--set", "depth=3"),
    "setting_without_value": fitted(None, "--set", "C"),
    "setting_out_of_range": fitted(None, "--set", "C=-1"),
    "model_into_no_folder": lambda folder: fit(
        folder, table(folder), "-o", str(folder / "no" / "m.colabel")
    ),
    "more_folds_than_rows": lambda folder: [
        "compare",
        str(table(folder)),
        "--labels",
        "tag_*",
        "--cv",
        "99",
        "--report",
        str(folder / "r.html"),
    ],
    "unknown_measure": compared("--measure", "accuracy"),
    "unknown_loss": compared("--decision", "f2", "--models", "br"),
}


# -------------------------------------------------------------------------- ARFF, XML, Parquet

ARFF = "@relation r\n@attribute size numeric\n@attribute tag_a {0,1}\n@attribute tag_b {0,1}\n"


def arff(folder: Path, *lines: str, header: str = ARFF) -> list[str]:
    good = [f"{i % 5},{i % 2},{(i // 2) % 2}" for i in range(12)]
    content = header + "@data\n" + "\n".join([*good, *lines]) + "\n"
    return fit(folder, table(folder, content, "data.arff"))


def sparse_arff(folder: Path, *lines: str) -> list[str]:
    good = [f"{{0 {i % 5 + 1}, {1 + i % 2} 1}}" for i in range(12)]
    content = ARFF + "@data\n" + "\n".join([*good, *lines]) + "\n"
    return fit(folder, table(folder, content, "data.arff"))


CASES |= {
    "arff_sparse_index_bomb": lambda folder: sparse_arff(folder, "{999999999 1}"),
    "arff_sparse_index_beyond_integers": lambda folder: sparse_arff(
        folder, "{" + "9" * 5000 + " 1}"
    ),
    "arff_sparse_index_negative": lambda folder: sparse_arff(folder, "{-1 1}"),
    "arff_sparse_index_twice": lambda folder: sparse_arff(folder, "{0 1, 0 2}"),
    "arff_sparse_unclosed": lambda folder: sparse_arff(folder, "{0 1, 1 1"),
    "arff_dense_among_sparse": lambda folder: sparse_arff(folder, "1,0,1"),
    "arff_without_data": fitted(ARFF, name="data.arff"),
    "arff_unknown_value": lambda folder: arff(folder, "1,0,2"),
    "arff_unclosed_quote": lambda folder: arff(folder, "1,'0,1"),
    "arff_attribute_twice": lambda folder: arff(folder, header=ARFF + "@attribute size numeric\n"),
}


@case
def arff_endless_line(folder):
    file = folder / "data.arff.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        stream.write((ARFF + "@data\n").encode())
        for _ in range(48):
            stream.write(b"1," * (1 << 19))
    return fit(folder, file)


def mulan(folder: Path, xml: bytes) -> Callable[[], object]:
    from colabel.datasets import read_dataset

    (folder / "data.arff").write_text(ARFF + "@data\n1,0,1\n")
    (folder / "data.xml").write_bytes(xml)
    return lambda: read_dataset(folder / "data.arff")


@case
def xml_entity_expansion(folder):
    entities = "".join(
        f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "ha" * 100}">' for i in range(10)
    )
    document = f'<!DOCTYPE labels [{entities}]><labels><label name="&e9;"/></labels>'
    return mulan(folder, document.encode())


@case
def xml_external_entity(folder):
    document = b'<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><labels>&x;</labels>'
    return mulan(folder, document)


@case
def xml_list_with_entities(folder):
    file = folder / "labels.xml"
    file.write_text('<!DOCTYPE l [<!ENTITY x "y">]><labels><label name="&x;"/></labels>')
    return fit(folder, table(folder), labels=f"@{file}")


CASES |= {
    "xml_cut_short": lambda folder: mulan(folder, b'<labels><label name="tag_a"/>'),
    "xml_too_large": lambda folder: mulan(folder, b"<labels>" + b" " * (17 << 20) + b"</labels>"),
    "parquet_of_text": fitted(name="data.parquet"),
}


def parquet(folder: Path, **columns: Any) -> Path:
    import pyarrow
    from pyarrow import parquet as arrow_parquet

    arrow_parquet.write_table(pyarrow.table(columns), folder / "data.parquet")
    return folder / "data.parquet"


@case
def parquet_cut_short(folder):
    file = parquet(folder, size=[1.0, 2.0], tag_a=[0, 1])
    file.write_bytes(file.read_bytes()[:-20])
    return fit(folder, file)


CASES |= {
    "parquet_with_infinity": lambda folder: fit(
        folder, parquet(folder, size=[1.0, float("inf")] * 5, tag_a=[0, 1] * 5)
    ),
    "parquet_of_lists": lambda folder: fit(
        folder, parquet(folder, size=[[1], [2, 3]] * 5, tag_a=[0, 1] * 5)
    ),
}


# ------------------------------------------------------------------------------ saved models


def good_model(folder: Path) -> Path:
    """A model file, made once."""
    import shutil

    made = folder.parent / "good.colabel"
    if not made.exists():
        run(fit(folder, table(folder), "-o", str(made)))
    shutil.copy(made, folder / "m.colabel")
    return folder / "m.colabel"


def predict(folder: Path, model: Path, *options: str, content: str | None = None) -> list[str]:
    out = ["-o", str(folder / "out.csv")]
    return ["predict", str(model), str(table(folder, content, "new.csv")), *out, *options]


def changed(
    model: Path, name: str, change: Callable[[bytes], bytes | None], **options: Any
) -> Path:
    with zipfile.ZipFile(model) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    chosen = [n for n in members if n == name or (name == "*.npy" and n.endswith(".npy"))]
    for one in chosen:
        content = change(members.pop(one))
        if content is not None:
            members[one] = content
    with zipfile.ZipFile(model, "w", **options) as archive:
        for n, content in members.items():
            archive.writestr(n, content)
    return model


def predicted(*options: str, content: str | None = None) -> Callable[[Path], Any]:
    """The case of a good model that is asked about a new table."""
    return lambda folder: predict(folder, good_model(folder), *options, content=content)


def asked(command: str, *options: str) -> Callable[[Path], Any]:
    """The case of another command with a good model and table."""
    return lambda folder: [command, str(good_model(folder)), str(table(folder)), *options]


def refused(name: str, change: Callable[[bytes], bytes | None]) -> Callable[[Path], Any]:
    """The case of a model file with a member changed."""
    return lambda folder: predict(folder, changed(good_model(folder), name, change))


def in_json(**values: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps({**json.loads(content), **values}).encode()


def of_first_type(tag: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        tree = json.loads(content)
        tree["objects"][0]["type"] = tag
        return json.dumps(tree).encode()

    return change


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


@case
def model_cut_short(folder):
    model = good_model(folder)
    model.write_bytes(model.read_bytes()[:3000])
    return predict(folder, model)


@case
def model_is_a_pickle(folder):
    (folder / "m.pkl").write_bytes(pickle.dumps({"a": 1}))
    return predict(folder, folder / "m.pkl")


CASES |= {
    "model_absent": lambda folder: predict(folder, folder / "absent.colabel"),
    "model_wants_os_system": refused("model.json", of_first_type("os.system")),
    "model_wants_a_function_of_colabel": refused("model.json", of_first_type("colabel.cli.main")),
    "model_that_is_no_json": refused("model.json", lambda c: c[:-10]),
    "model_without_its_arrays": refused("*.npy", lambda _: None),
    "model_with_other_shapes": refused("*.npy", lambda _: npy(np.zeros(3))),
    "model_is_a_table": lambda folder: predict(folder, table(folder)),
    "model_without_manifest": refused("colabel.json", lambda _: None),
    "model_of_a_later_version": refused("colabel.json", in_json(format=99)),
    "model_with_a_strange_manifest": refused("colabel.json", lambda _: b"[1, 2]"),
}


@case
def model_with_a_member_too_many(folder):
    model = good_model(folder)
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("schema.json", "{}")
    return predict(folder, model)


@case
def model_is_compressed(folder):
    model = good_model(folder)
    return predict(folder, changed(model, "", lambda c: c, compression=zipfile.ZIP_DEFLATED))


@case
def model_unpacks_to_gigabytes(folder):
    model = changed(good_model(folder), "*.npy", lambda _: None)
    with (
        zipfile.ZipFile(model, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("bomb.npy", "w") as stream,
    ):
        for _ in range(400):
            stream.write(b"\0" * (1 << 20))
    return predict(folder, model)


@case
def model_nested_without_end(folder):
    deep = b'{"content":' * 100_000 + b"1" + b"}" * 100_000
    return refused("model.json", lambda _: deep)(folder)


@case
def model_with_a_boundless_array(folder):
    def change(_: bytes) -> bytes:
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }"
        padded = header.ljust(117) + "\n"
        return (
            b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode() + b"\0" * 8
        )

    return predict(folder, changed(good_model(folder), "*.npy", change))


@case
def model_with_pickled_arrays(folder):
    bomb = npy(np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return refused("*.npy", lambda _: bomb)(folder)


@case
def model_with_nan(folder):
    def change(content: bytes) -> bytes:
        array = np.load(io.BytesIO(content))
        return npy(np.full_like(array, np.nan)) if array.dtype.kind == "f" else content

    return predict(folder, changed(good_model(folder), "*.npy", change))


# ------------------------------------------------------------------------------- new tables


CASES |= {
    "new_table_lacks_a_column": predicted(content="size,colour\n1,red\n"),
    "new_table_has_text_for_numbers": predicted(content="size,weight,colour\n1,heavy,red\n"),
    "new_table_is_empty": predicted(content="size,weight,colour\n"),
    "new_table_breaks_off": predicted(
        content="size,weight,colour\n" + "1,2,red\n" * 20_000 + "1,2"
    ),
    "known_label_of_another_value": predicted(
        "--given", "tag_a", content="size,weight,colour,tag_a\n1,2,red,maybe\n"
    ),
    "known_tag_that_is_no_label": predicted(
        "--given", "known", content="size,weight,colour,known\n1,2,red,tag_q\n"
    ),
    "known_labels_in_no_column": predicted("--given", "known_*"),
    "kept_column_absent": predicted("--keep", "id"),
    "negative_top_k": predicted("--top-k", "-3"),
    "unknown_decision": predicted("--decision", "best"),
    "output_into_no_folder": lambda folder: predict(
        folder, good_model(folder), "-o", str(folder / "no" / "out.csv")
    ),
}


@case
def output_of_several_tables_is_a_file(folder):
    more = str(table(folder, None, "more.csv"))
    return [*predict(folder, good_model(folder)), more, "-o", str(folder / "new.csv")]


CASES |= {
    "fit_without_its_scratch_folder": lambda folder: fit(
        folder, table(folder), "--workers", "2", "--scratch", str(folder / "none")
    ),
    "fit_by_no_scheduler": fitted(None, "--cluster", "http://somewhere"),
}


@case
def parts_of_other_columns(folder):
    other = table(folder, "size,tag_a\n1,0\n2,1\n", "other.csv")
    return [*fit(folder, table(folder)), str(other)]


CASES |= {
    "no_file_matches": lambda folder: fit(folder, folder / "none-*.csv"),
    "explain_a_row_that_is_not_there": asked("explain", "--row", "1000"),
    "explain_a_label_that_is_not_there": asked("explain", "--label", "nothing"),
    "explain_against_nothing": asked("explain", "--against", "no.csv"),
    "explore_rows_that_are_not_there": asked("explore", "--start", "1000"),
    "export_of_nothing": lambda folder: [
        "datasets",
        "export",
        "mnist",
        "-o",
        str(folder / "x.csv"),
    ],
}


# ---------------------------------------------------------------------------------- running


def run(arguments: Any) -> dict[str, Any]:
    """Run a command, or a call that must raise TableError, as one case."""
    from typer.testing import CliRunner

    from colabel.cli import app
    from colabel.tables import TableError

    if callable(arguments):
        try:
            arguments()
        except TableError as error:
            return {"code": 2, "out": "", "err": f"Error: {error}\n"}
        return {"code": 0, "out": "", "err": ""}
    result = CliRunner().invoke(app, arguments)
    error = result.exception
    crashed = error is not None and not isinstance(error, SystemExit)
    return {
        "code": result.exit_code,
        "out": result.stdout,
        "err": result.stderr,
        "crash": repr(error) if crashed else None,
    }


def peak_memory() -> int:
    """Return the most memory this program has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # The other count starts with the memory of the process that started this one.
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    folder = Path(sys.argv[1])

    def hangs(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, hangs)
    for name in sys.argv[2:] or CASES:
        make, place = CASES[name], folder / name
        place.mkdir()
        signal.alarm(SECONDS)
        result: dict[str, Any] = {"code": None, "err": "", "crash": "nothing"}
        with contextlib.suppress(TimeoutError):
            result = run(make(place))
        signal.alarm(0)
        result["left"] = sorted(p.name for p in place.iterdir() if p.name.startswith("."))
        result["written"] = (place / "out.csv").exists()
        result["peak"] = peak_memory()
        sys.__stdout__.write(json.dumps({"name": name, **result}) + "\n")


if __name__ == "__main__":
    main()
