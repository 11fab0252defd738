"""Tables and models damaged at random: an error of the library's own, or an answer."""

from __future__ import annotations

import io
import random
import warnings
import zipfile

import pytest

import colabel
from colabel.saving import ModelFileError
from colabel.tables import (
    TableError,
    TableModel,
    TableRequest,
    load_table,
    read_frame,
    summarise,
    table_of,
)

CSV = "size,weight,colour,tag_a,tag_b\n" + "".join(
    f"{i % 7},{i * i % 5},{'red' if i % 2 else 'blue'},{i % 2},{i // 2 % 2}\n" for i in range(20)
)
ARFF = (
    "@relation r\n@attribute size numeric\n@attribute tag_a {0,1}\n@attribute tag_b {0,1}\n@data\n"
)
TABLES = {
    "t.csv": CSV,
    "t.arff": ARFF + "".join(f"{i % 5},{i % 2},{i // 2 % 2}\n" for i in range(12)),
    "q.arff": ARFF.replace("size", "'the \\'size\\''")
    + "".join(f"'{i % 5}',{i % 2}, '{i // 2 % 2}'\n" for i in range(12)),
    "s.arff": ARFF + "".join(f"{{0 {i % 5 + 1}, {1 + i % 2} 1}}\n" for i in range(12)),
}
PIECES = [b",", b'"', b"\n", b"\0", b"{", b"}", b"?", b"inf", b"1e999", b"\xff", b"'", b"\\", b"%"]


def damaged(content: bytes, chance: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(found) + 1)
        match chance.randrange(4):
            case 0:
                found[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                found[place:place] = chance.choice(PIECES)
            case 2:
                del found[place : place + chance.randint(1, 20)]
            case 3:
                found[place:place] = found[max(0, place - 30) : place]
    return bytes(found)


def said(read, *args) -> str:
    """What an error of the library says; nothing if there is none."""
    try:
        read(*args)
    except TableError as error:
        return str(error).rstrip()
    return ""


@pytest.mark.parametrize("name", TABLES)
def test_damaged_tables(tmp_path, name):
    chance = random.Random(name)
    file = tmp_path / name
    sentences = []
    for _ in range(150):
        content = damaged(TABLES[name].encode(), chance)
        file.write_bytes(content[: chance.randrange(2 * len(content))])
        if name.endswith(".arff"):
            of_file = said(read_frame, file)
            assert not of_file or str(file) in of_file
        sentences.append(said(lambda: summarise(load_table(TableRequest(file, ["tag_*"])))))
    assert any(sentences)
    assert all(sentence.endswith((".", "?")) for sentence in filter(None, sentences))


def test_damaged_models(tmp_path):
    columns = {"size": [1, 2, 3, 4] * 5, "tags": ["a", "a;b", "b", "c"] * 5}
    data = table_of(columns, "tags")
    estimator = colabel.CTBN(C=1.0, random_state=0)
    model = TableModel.fit(estimator, data.features, data.choice, data.labels)
    file = tmp_path / "m.colabel"
    colabel.save(model, file)
    whole = file.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chance = random.Random(0)
    n_refused = 0
    for attempt in range(60):
        if attempt % 3:  # damage that the archive's own checksums do not see
            chosen = chance.choice(list(members))
            with zipfile.ZipFile(file, "w") as archive:
                for name, content in members.items():
                    changed = damaged(content, chance) if name == chosen else content
                    archive.writestr(name, changed)
        else:
            file.write_bytes(damaged(whole, chance))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                colabel.load(file).predict(columns)
            except (ModelFileError, ValueError):
                n_refused += 1
    assert n_refused > 30
