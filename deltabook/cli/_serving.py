"""Options of commands that serve a port: token, certificate and allowed origins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from deltabook.wire.access import PortSecurity

__all__ = ["security_options"]


def security_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a port's security to a command, which receives them as ``security``."""

    @click.option("--token-file", default="", metavar="FILE", help="File with the token that clients must send.")
    @click.option("--tls-cert", default="", metavar="FILE", help="PEM file with the certificate of the port.")
    @click.option("--tls-key", default="", metavar="FILE", help="PEM file with the key of that certificate.")
    @click.option(
        "--allow-origin", multiple=True, metavar="URL", help="Origin of web pages that may use the port; repeatable."
    )
    @functools.wraps(command)
    def given(token_file: str, tls_cert: str, tls_key: str, allow_origin: tuple[str, ...], **others: Any) -> None:
        command(security=PortSecurity(token_file, tls_cert, tls_key, allow_origin), **others)

    return given
