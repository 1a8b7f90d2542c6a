"""Strategy classes as bytes for other processes, including classes that those processes cannot import.

cloudpickle sends functions and classes of a notebook or a script by value: the receiver makes an empty class and fills
it afterwards. This is impossible for msgspec's structs, because the fields of a struct are fixed when its class is
made, and the parameters of every strategy are a struct. A struct is therefore sent as the arguments of its definition.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from functools import cached_property
from types import FunctionType
from typing import Any, Final

import cloudpickle
import msgspec

from algo_engine.strategy import Strategy
from deltabook.backtest.errors import SweepError

__all__ = ["pickled_classes", "unpickled_classes"]

_SETTINGS: Final = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip
_MEMBERS: Final = (FunctionType, classmethod, staticmethod, property, cached_property)


def pickled_classes(classes: Mapping[str, type[Strategy[Any]]]) -> bytes:
    """Return strategies by name as bytes; raise `SweepError` if a class refers to an object that cannot be pickled."""
    if not classes:
        return b""
    data = io.BytesIO()
    try:
        _Pickler(data).dump(dict(classes))
    except Exception as error:  # any object that a class refers to may refuse to be pickled
        raise SweepError(
            f"expected strategies that can be sent to other processes, was {type(error).__name__}: {error}; "
            "a class in a file can be sent, and jobs=1 sends none"
        ) from error
    return data.getvalue()


def unpickled_classes(data: bytes) -> dict[str, type[Strategy[Any]]]:
    """Return the strategies in ``data``, which `pickled_classes` has made in the process that runs the sweep."""
    return pickle.loads(data) if data else {}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type(msgspec.Struct)) and not _is_importable(obj):
            return _made_struct, (_parts_of(obj),)
        return super().reducer_override(obj)


def _is_importable(class_: type) -> bool:
    module = sys.modules.get(class_.__module__)
    return class_.__module__ != "__main__" and getattr(module, class_.__qualname__, None) is class_


def _parts_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    fields = [
        (each.name, each.type, each.encode_name, each.default, each.default_factory)
        for each in msgspec.structs.fields(struct)
    ]
    own = {
        name: value
        for name, value in vars(struct).items()
        if name not in struct.__struct_fields__
        and (name == "__doc__" or isinstance(value, _MEMBERS) or not name.startswith("__"))
    }
    return {
        "name": struct.__name__,
        # NODEFAULT itself is never sent: unpickling it would make another object.
        "fields": [
            (name, type_, encoded, *(("default", default) if default is not msgspec.NODEFAULT else
                                     ("factory", factory) if factory is not msgspec.NODEFAULT else ("none", None)))
            for name, type_, encoded, default, factory in fields
        ],
        "bases": struct.__bases__,
        "module": struct.__module__,
        "namespace": own,
        "settings": {name: getattr(struct.__struct_config__, name) for name in _SETTINGS},
    }  # fmt: skip


def _made_struct(parts: dict[str, Any]) -> type[msgspec.Struct]:
    fields = []
    for name, type_, encoded, kind, value in parts["fields"]:
        given = {"default": {"default": value}, "factory": {"default_factory": value}, "none": {}}[kind]
        fields.append((name, type_, msgspec.field(name=encoded, **given)))
    return msgspec.defstruct(
        parts["name"], fields, bases=parts["bases"], module=parts["module"], namespace=parts["namespace"],
        kw_only=any(kind == "none" for *_, kind, _ in parts["fields"]), **parts["settings"],
    )  # fmt: skip
