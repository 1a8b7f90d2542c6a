"""Checksums of the express lane's views in the footer of an epoch, taken at its end.

They are stored in one attribute, as JSON. A failed view is left out, and so are all views if the lane has failed; a
view with a checksum was therefore whole at that epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from runtime.epochs.segment import Footer

__all__ = ["checksums_of", "with_checksums"]

_ATTRIBUTE: Final = "checksums"


def with_checksums(footer: Footer, checksums: Mapping[str, int]) -> Footer:
    """Return the footer with the checksums of these views, each below 2^64."""
    encoded = msgspec.json.encode(checksums).decode()
    return msgspec.structs.replace(footer, attributes=footer.attributes | {_ATTRIBUTE: encoded})


def checksums_of(footer: Footer) -> dict[str, int]:
    """Return the checksums in a footer: none in an epoch of an earlier release."""
    encoded = footer.attributes.get(_ATTRIBUTE)
    return {} if encoded is None else msgspec.json.decode(encoded, type=dict[str, int])
