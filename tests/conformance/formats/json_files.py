"""Valid files of JSON lines, read as a whole by `pyarrow.json`."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from runtime.formats import Field, Schema
from runtime.formats.jsonlines import JsonFormat
from tests.conformance.formats.sample import Sample
from tests.conformance.formats.texts import SCALARS, random_scalar

__all__ = ["JsonFiles"]

_NUMBERS = ("int", "uint", "float", "decimal", "numeric", "bool")
_SPACES = ("", "", "", " ", "\t", "  ")
_PARENTS = ("a", "b", "outer")
Tree = dict[str, Any]


def _random_type(rng: random.Random, depth: int = 0) -> str:
    chance = rng.random()
    if depth < 2 and chance < 0.12:
        return f"array<{_random_type(rng, depth + 1)}>"
    if depth < 2 and chance < 0.22:
        members = ",".join(f"m{number}:{_random_type(rng, depth + 1)}" for number in range(rng.randint(1, 3)))
        return f"struct<{members}>"
    return rng.choice(SCALARS)


def _random_schema(rng: random.Random) -> Schema:
    fields = []
    for number in range(rng.choice((1, 2, 3, 5, 8))):
        parents = rng.choices(_PARENTS, k=rng.choice((0, 0, 0, 1, 2)))
        path = ".".join((*parents, f"f{number}"))
        name = f"f{number}" if rng.random() < 0.7 else f"column_{number}"
        fields.append(Field(name, _random_type(rng), nullable=rng.random() < 0.5, path="" if path == name else path))
    return Schema(tuple(fields), format=JsonFormat())


class _Writer:
    """Writes objects, in any of the ways in which the same object can be written."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def line(self, fields: tuple[Field, ...]) -> str:
        """Return one object with all fields, in any order, and with additional keys."""
        rng = self._rng
        tree: Tree = {}
        for field in fields:
            *parents, key = (field.path or field.name).split(".")
            if field.nullable and rng.random() < 0.15:
                if parents and rng.random() < 0.5:  # a NULL in place of the object around it, if nothing else is in it
                    *parents, key = parents
                    if key in _node(tree, parents):
                        continue
                _set_missing(tree, [*parents, key], "null" if rng.random() < 0.6 else None)
                continue
            text = self.value(field.type)
            _node(tree, parents)[key] = text
        return self._spaced(self._object(tree))

    def value(self, type_name: str) -> str:
        """Return the text of a random value of a type."""
        rng = self._rng
        if type_name.startswith("array<"):
            items = [self.value(type_name[6:-1]) for _ in range(rng.choice((0, 1, 2, 5)))]
            return "[" + ",".join(self._spaced(item) for item in items) + "]"
        if type_name.startswith("struct<"):
            return self._object({name: self.value(kind) for name, kind in _members(type_name)}, extra=False)
        text = random_scalar(rng, Field("x", type_name))
        if type_name == "date" or type_name.startswith("timestamp"):
            return f'"{text}"'
        if type_name.startswith(_NUMBERS):
            return text
        if type_name == "string" and rng.random() < 0.2:
            text += rng.choice(("\n", "\r\n", "\t", '"', "\\", "\\n", '\\"', "\x01", "{", "}\n{", "\u2028"))
        return json.dumps(text, ensure_ascii=rng.random() < 0.5)

    def _object(self, tree: Tree, *, extra: bool = True) -> str:
        rng = self._rng
        members = [(key, self._object(node) if isinstance(node, dict) else node) for key, node in tree.items()]
        if extra and rng.random() < 0.3:
            members.append((f"unknown{rng.randint(0, 3)}", rng.choice(("1", '"x"', "null", "[1,[2]]", '{"f0":1}'))))
        rng.shuffle(members)
        spaced = self._spaced
        return "{" + ",".join(f"{spaced(json.dumps(key))}:{spaced(text)}" for key, text in members) + "}"

    def _spaced(self, text: str) -> str:
        return self._rng.choice(_SPACES) + text + self._rng.choice(_SPACES)


def _node(tree: Tree, parents: list[str]) -> Tree:
    for parent in parents:
        below = tree.get(parent)
        if not isinstance(below, dict):
            below = tree[parent] = {}
        tree = below
    return tree


def _set_missing(tree: Tree, path: list[str], text: str | None) -> None:
    node = _node(tree, path[:-1])
    if text is not None:
        node.setdefault(path[-1], text)


def _members(type_name: str) -> list[tuple[str, str]]:
    """Return the names and types of a struct's members; only commas at its own level separate them."""
    members, depth, start = [], 0, 7
    for place, letter in enumerate(type_name[7:], 7):
        depth += (letter in "<(") - (letter in ">)")
        if (letter == "," and depth == 0) or depth < 0:
            name, _, kind = type_name[start:place].partition(":")
            members.append((name, kind))
            start = place + 1
    return members


class JsonFiles:
    """Random files of one random schema."""

    def __init__(self, rng: random.Random) -> None:
        self.schema = _random_schema(rng)

    def sample(self, rng: random.Random, rows: int | None = None) -> Sample:
        """Return a random file."""
        writer = _Writer(rng)
        count = rng.choice((0, 1, 2, 20, 60, 200)) if rows is None else rows
        lines, ends, data = [], [], bytearray()
        returns = rng.random() < 0.2
        for number in range(count):
            line = writer.line(self.schema.fields)
            lines.append(line)
            data += line.encode()
            if number < count - 1 or rng.random() < 0.6:
                data += b"\r\n" if returns and rng.random() < 0.5 else b"\n"
            ends.append(len(data))
            if rng.random() < 0.05 and number < count - 1:
                data += b"\n"
        return Sample(
            schema=self.schema,
            data=bytes(data),
            table=_read("\n".join(lines).encode(), self.schema),
            ends=ends,
            breaks=[*ends, *(place for place, byte in enumerate(data) if byte in b'\\{"')],
            spread="tuple",
        )


def _library_type(arrow_type: Any) -> Any:
    """Return a type for the library's reader, which knows no dates in JSON: they are read as text, and cast."""
    if pa.types.is_date(arrow_type):
        return pa.string()
    if pa.types.is_list(arrow_type):
        return pa.list_(_library_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([(member.name, _library_type(member.type)) for member in arrow_type])
    return arrow_type


def _read(text: bytes, schema: Schema) -> Any:
    """Return the library's parse of the whole file."""
    wanted = schema.arrow_schema()
    if not text:
        return wanted.empty_table()
    tree: Tree = {}
    for field in schema.fields:
        *parents, key = (field.path or field.name).split(".")
        _node(tree, parents)[key] = _library_type(field.parser.arrow_type)
    table = pajson.read_json(
        pa.BufferReader(text),
        read_options=pajson.ReadOptions(use_threads=False, block_size=1 << 26),
        parse_options=pajson.ParseOptions(
            explicit_schema=pa.schema(_struct_of(tree)), newlines_in_values=False, unexpected_field_behavior="ignore"
        ),
    )
    columns = []
    for field in schema.fields:
        first, *rest = (field.path or field.name).split(".")
        column = table.column(first)
        for key in rest:
            column = pc.struct_field(column, key)
        columns.append(_cast(column, wanted.field(field.name).type))
    return pa.table(columns, names=list(schema.names))


def _struct_of(tree: Tree) -> Any:
    return pa.struct([(key, _struct_of(node) if isinstance(node, dict) else node) for key, node in tree.items()])


def _cast(column: Any, wanted: Any) -> Any:
    return column if column.type == wanted else column.cast(wanted)
