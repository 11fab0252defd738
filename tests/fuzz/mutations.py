"""Random changes of JSON trees, arrays, bytes and texts."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np

NUMBERS = [
    0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63, 10**30, -(10**30), True,
    False, 0.5, -0.5, 1e-300, 1e300, -1e300, 5e-324, 1.0000001,
]  # fmt: skip
OTHERS = [
    None,
    "",
    "a",
    "0",
    "𝕏\x00",
    [],
    {},
    [0],
    [[]],
    {"object": 0},
    {"array": 0},
    {"tuple": []},
]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """All (container, key) of a JSON tree."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                left.append(node[key])
    return found


def change_tree(rng: np.random.Generator, tree: Any) -> Any:
    """Change one place of a JSON tree."""
    every = places(tree)
    named = [(node, key) for node, key in every if key == "object" and isinstance(node, dict)]
    if named and rng.random() < 0.1:  # another object in the place of one
        container, key = named[rng.integers(len(named))]
        container[key] = int(rng.integers(len(named)))
        return tree
    container, key = every[rng.integers(len(every))]
    match rng.integers(5):
        case 0:
            container[key] = NUMBERS[rng.integers(len(NUMBERS))]
        case 1:
            container[key] = json.loads(json.dumps(OTHERS[rng.integers(len(OTHERS))]))
        case 2:  # another value of the same tree
            other, place = every[rng.integers(len(every))]
            container[key] = json.loads(json.dumps(other[place]))
        case 3:
            if isinstance(container, dict):
                del container[key]
            else:
                container.insert(key, container[key])
        case 4 if isinstance(container[key], int) and not isinstance(container[key], bool):
            container[key] += int(rng.integers(-3, 4))
        case _:
            if isinstance(container, list):
                container.pop(key)
            else:
                container[f"{key}_"] = container[key]
    return tree


def change_array(rng: np.random.Generator, content: bytes) -> bytes:
    """Change values, shape or type of an .npy file."""
    array = np.load(io.BytesIO(content))
    match rng.integers(6):
        case 0 | 1 | 2 if array.size and array.dtype.kind in "biuf":
            array = array.copy()
            values = [v for v in NUMBERS if array.dtype.kind == "f" or abs(v) < 2**31]
            if array.dtype.kind == "f":
                values += [np.nan, np.inf, -np.inf]
            flat = array.reshape(-1)
            place = rng.integers(array.size)
            with np.errstate(all="ignore"):
                flat[place] = np.array(values[rng.integers(len(values))]).astype(array.dtype)
        case 3:
            array = array[..., : max(0, array.shape[-1] - 1)] if array.ndim else array
        case 4:
            array = array.T if array.ndim > 1 else array[None]
        case _:
            to = rng.choice(["<f4", "<i8", "<i4", "?", "<U5", "<c16", ">f8"])
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # of parts that are lost
                with suppress(ValueError):  # not every text is a number
                    array = array.astype(to)
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def change_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """Flip, cut, repeat or insert bytes."""
    if not content:
        return b"\x00"
    data = bytearray(content)
    start = int(rng.integers(len(data)))
    match rng.integers(4):
        case 0:
            for place in rng.integers(len(data), size=int(rng.integers(1, 8))):
                data[place] = int(rng.integers(256))
        case 1:
            del data[start:]
        case 2:
            data[start:start] = data[start : start + int(rng.integers(1, 64))]
        case _:
            data[start:start] = bytes(
                rng.integers(256, size=int(rng.integers(1, 16)), dtype=np.uint8)
            )
    return bytes(data)


def change_consistently(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Make several changes of a model file that belong together, so that it may be accepted.

    A size is made smaller or larger by one wherever it occurs, in arrays, lists and numbers; or
    some arrays hold other numbers of their kind: scaled, shuffled, distributions of another shape.
    """
    names = [name for name in members if name.endswith(".npy")]
    arrays = {name: np.load(io.BytesIO(members[name])) for name in names}
    sizes = sorted({n for array in arrays.values() for n in array.shape if n > 1})
    if sizes and rng.random() < 0.4:
        size = int(sizes[rng.integers(len(sizes))])
        keep = [*range(size - 1)] if rng.random() < 0.5 else [*range(size), size - 1]
        for name, array in arrays.items():
            for axis in range(array.ndim):
                if array.shape[axis] == size:
                    arrays[name] = np.take(arrays[name], keep, axis=axis)
        tree = json.loads(members["model.json"])
        for container, key in places(tree):
            value = container[key]
            if isinstance(value, list) and len(value) == size:
                container[key] = [value[i] for i in keep]
            elif (
                type(value) is int
                and value in (size, size - 1, size + 1)
                and key
                not in (
                    "object",
                    "array",
                )
            ):
                container[key] = value + len(keep) - size
        members["model.json"] = json.dumps(tree).encode()
    else:
        factor = 10.0 ** rng.integers(-3, 20)
        for name, array in arrays.items():
            if rng.random() < 0.5 or not array.size:
                continue
            if array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1 and array.ndim:
                drawn = rng.random(array.shape) ** rng.integers(1, 9)
                arrays[name] = drawn / np.maximum(drawn.sum(axis=-1, keepdims=True), 1e-300)
            elif array.dtype.kind == "f":
                arrays[name] = (
                    array * factor if rng.random() < 0.5 else rng.permuted(array, axis=-1)
                )
            elif array.dtype.kind == "i":
                arrays[name] = rng.permutation(array.reshape(-1)).reshape(array.shape)
    for name, array in arrays.items():
        out = io.BytesIO()
        np.save(out, np.ascontiguousarray(array))
        members[name] = out.getvalue()


def change_archive(rng: np.random.Generator, content: bytes) -> bytes:
    """Change a model file: several places that belong together, its JSON, an array, its bytes."""
    what = rng.integers(15)
    if what == 0:
        return change_bytes(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in members if name.endswith(".npy")]
    if what >= 10:
        for _ in range(int(rng.integers(1, 4))):
            change_consistently(rng, members)
    for _ in range(0 if what >= 10 else int(rng.integers(1, 3))):
        if what <= 4 and arrays:
            name = arrays[rng.integers(len(arrays))]
            members[name] = change_array(rng, members[name])
        else:
            name = "model.json" if what < 9 else "colabel.json"
            members[name] = json.dumps(change_tree(rng, json.loads(members[name]))).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, each in members.items():
            archive.writestr(name, each)
    return out.getvalue()


PIECES = [
    b"", b",", b",,,", b";", b"\n", b"\r\n", b'"', b"\x00", b"\xff\xfe", b"nan", b"1e400",
    b"-1e400", b"99999999999999999999", b"@relation x", b"@data", b"{", b"}",
    b"?", b"'", b"\xe2\x82", b"  ",
]  # fmt: skip


def change_text(rng: np.random.Generator, content: bytes) -> bytes:
    """Change a text file: bytes as before, or pieces that mean something to readers."""
    if rng.random() < 0.4:
        return change_bytes(rng, content)
    lines = content.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(lines)))
        line = lines[place]
        at = int(rng.integers(len(line) + 1))
        match rng.integers(4):
            case 0:
                lines[place] = line[:at] + PIECES[rng.integers(len(PIECES))] + line[at:]
            case 1:
                lines[place] = line[:at]
            case 2:
                lines.insert(place, line)
            case _:
                lines.pop(place)
                lines = lines or [b""]
    return b"\n".join(lines)
