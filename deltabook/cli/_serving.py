"""Options of commands that serve a port: who may use it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from deltabook.wire.access import PortSecurity

__all__ = ["security_options"]


def security_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a port's security, and it ``security`` as a `PortSecurity`."""

    @click.option("--token-file", default="", metavar="FILE", help="Require the token in this file from every client.")
    @click.option("--tls-cert", default="", metavar="FILE", help="PEM file of the port's certificate.")
    @click.option("--tls-key", default="", metavar="FILE", help="PEM file of its key.")
    @click.option(
        "--allow-origin", multiple=True, metavar="URL", help="Origin whose pages may use the port; may be repeated."
    )
    @functools.wraps(command)
    def given(token_file: str, tls_cert: str, tls_key: str, allow_origin: tuple[str, ...], **others: Any) -> None:
        command(security=PortSecurity(token_file, tls_cert, tls_key, allow_origin), **others)

    return given
