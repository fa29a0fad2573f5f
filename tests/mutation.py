"""Files, damaged: bytes that a disk or a network spoils, and content that somebody means to spoil."""

import contextlib
import copy
import io
import json
import math
import re
import zipfile

import numpy as np

DEEP = "[" * 3000 + "]" * 3000
VALUES = [None, True, -1, 0, 7, 10**30, 1e308, -0.5, math.nan, math.inf, "",
          "x" * 1000, "\ud800", "0", [], {}, [[]], [[1], [2, 3]], {"a": 1}]  # fmt: skip
TOKENS = ["inf", "nan", "-1", "1e999", "", "0", "9" * 400, "1" * 5000, "é",
          "\x00", "<", ">", "&", "%", "'", '"', "((", "**", "(a+)+$", "10**10**10", ",", "\n", "`"]  # fmt: skip


def damaged(content, rng):
    """The same bytes, but for one accident."""
    raw = bytearray(content)
    size = max(len(raw), 1)
    place, kind = int(rng.integers(size)), int(rng.integers(7))
    if kind == 0:
        raw[place : place + 1] = bytes([(raw[place] if raw else 0) ^ 1 << int(rng.integers(8))])
    elif kind == 1:
        raw[place : place + 8] = rng.bytes(8)
    elif kind == 2:
        raw[place : place + 512] = bytes(min(512, size - place))
    elif kind == 3:
        del raw[place:]
    elif kind == 4:
        del raw[place : place + int(rng.integers(1, 64))]
    elif kind == 5:
        raw[place:place] = raw[place : place + int(rng.integers(1, 4096))]
    else:
        raw[place:place] = TOKENS[int(rng.integers(len(TOKENS)))].encode()
    return bytes(raw)


def reworded(content, rng):
    """A text with one of its numbers or words replaced."""
    text = content.decode("utf-8", "surrogateescape")
    words = list(re.finditer(r"[\w.+-]+", text))
    if not words:
        return content
    word = words[int(rng.integers(len(words)))]
    token = TOKENS[int(rng.integers(len(TOKENS)))]
    return (text[: word.start()] + token + text[word.end() :]).encode("utf-8", "surrogateescape")


def changed_json(content, rng):
    """JSON in which one value is another, or one key is gone; or that is deeper than anybody reads."""
    if rng.random() < 0.03:
        return content.replace(b"[", DEEP.encode() + b",[", 1)
    tree = copy.deepcopy(json.loads(content))
    places = list(_places(tree, ()))
    for _ in range(int(rng.integers(1, 3))):
        if places:
            _change(tree, places[int(rng.integers(len(places)))], rng)
    return json.dumps(tree).encode()


def _places(node, path):
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _places(child, (*path, key))


def _change(tree, path, rng):
    node = tree
    for key in path[:-1]:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return
    kind = rng.random()
    try:
        if kind < 0.2:
            del node[path[-1]]
        elif kind < 0.3 and isinstance(node, list):
            node.append(copy.deepcopy(node[path[-1]]))
        elif kind < 0.4 and isinstance(node[path[-1]], int | float) and not isinstance(node[path[-1]], bool):
            node[path[-1]] = node[path[-1]] + float(rng.choice([1, -1, 1000, 0.5]))
        else:
            node[path[-1]] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    except (KeyError, IndexError, TypeError):
        return


def changed_array(content, rng):
    """An array of other size, type or numbers; or one whose header promises more than there is."""
    if rng.random() < 0.2:
        return content.replace(b"'shape': (", b"'shape': (99999999999, ", 1)
    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    kind = int(rng.integers(6))
    flat = array.reshape(-1).copy()
    if kind == 0:
        array = array[: len(array) // 2] if array.ndim else array
    elif kind == 1:
        array = array[None]
    elif kind == 2:
        other = [np.float64, np.int64, np.uint8, bool, "U3", np.complex128][int(rng.integers(6))]
        with contextlib.suppress(TypeError, ValueError), np.errstate(all="ignore"):  # words are no numbers
            array = array.astype(other)
    elif kind == 3 and flat.size and array.dtype.kind in "fiu":
        most = 2**40 if array.dtype.kind == "f" else int(np.iinfo(array.dtype).max)
        odd = [np.nan, np.inf, -1e300] if array.dtype.kind == "f" else []
        flat[int(rng.integers(flat.size))] = rng.choice([most, 0, 1, *odd])
        array = flat.reshape(array.shape)
    elif kind == 4:
        array = np.zeros(0)
    else:
        array = np.roll(array, 1)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


def repacked(content, rng):
    """A zip with one of its parts changed, and all checksums right: what somebody who means it would write."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(sorted(parts)))
    if name.endswith(".json"):
        parts[name] = changed_json(parts[name], rng)
    elif name.endswith(".npz"):
        parts[name] = repacked(parts[name], rng)
    elif parts[name].startswith(b"\x93NUMPY"):
        parts[name] = changed_array(parts[name], rng) if rng.random() < 0.8 else damaged(parts[name], rng)
    else:
        parts[name] = damaged(parts[name], rng)
    if rng.random() < 0.1:
        del parts[name]
    elif rng.random() < 0.03:
        parts[name] = bytes(300_000_000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED) as archive:
        for part, value in parts.items():
            archive.writestr(part, value, zipfile.ZIP_DEFLATED if len(value) > 10**8 else None)
    return buffer.getvalue()


def mutant(name, content, rng):
    """A damaged copy of a file, in a way that suits its kind."""
    if rng.random() < 0.4:
        return damaged(content, rng)
    if name.endswith((".butfor", ".skops")):
        return repacked(content, rng)
    if name.endswith(".json"):
        return changed_json(content, rng)
    if name.endswith((".xml", ".csv", ".jsonl", ".txt", ".toml", ".where", ".pattern")):
        return reworded(content, rng)
    return damaged(damaged(content, rng), rng)
