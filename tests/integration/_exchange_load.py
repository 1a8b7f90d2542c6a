"""Load for an exchange process over real sockets, and an uninterrupted run to compare it with."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from deltabook.wire import ouch5, soupbin
from exchange_server.journal import JournalReader
from exchange_server.journal.streams import feed_name, private_name
from exchange_server.matching.market import Market
from exchange_server.matching.outputs import Now
from exchange_server.outputs import all_outputs

__all__ = ["Listener", "Trader", "Uninterrupted", "drive"]

WAIT_S = 30.0
OUTSTANDING = 48
"""Number of orders that a trader has sent and that were not answered."""


class Listener:
    """Follows one sequenced stream through every connection, each time from the next message on."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self._session = ""
        self._splitter = soupbin.PacketSplitter(soupbin.PACKET_LIMIT_BYTES)
        self.socket: socket.socket | None = None
        self.is_in = False
        self.received: list[bytes] = []
        """All received messages; the first is number 1."""

    def connect(self, port: int) -> None:
        """Log in at the position where the last connection ended."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self._splitter = soupbin.PacketSplitter(soupbin.PACKET_LIMIT_BYTES)
        login = soupbin.LoginRequest(self._user, self._password, self._session, len(self.received) + 1)
        self.socket.sendall(soupbin.encode_login(login))
        while not self._session or not self.is_in:
            self.take()

    def take(self) -> bool:
        """Read available bytes; return False at the end of the connection."""
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            data = b""
        for packet in self._splitter.split(data):
            if packet.type == soupbin.SEQUENCED:
                self.received.append(packet.payload)
                self.hear(packet.payload)
            elif packet.type == soupbin.ACCEPTED:
                reply = soupbin.parse_login_reply(packet)
                assert isinstance(reply, soupbin.LoginAccepted)
                assert reply.sequence == len(self.received) + 1
                self._session, self.is_in = reply.session, True
            else:
                assert packet.type in {soupbin.SERVER_HEARTBEAT, soupbin.DEBUG}, packet
        return bool(data)

    def hear(self, message: bytes) -> None:
        """Process one more message."""

    def ask(self) -> None:
        """Send the next requests."""

    def end(self) -> None:
        """Read the bytes that the kernel still has from the dead exchange, and close."""
        assert self.socket is not None
        with suppress(OSError):
            while self.take():
                pass
        self.socket.close()
        self.socket, self.is_in = None, False


class Trader(Listener):
    """Keeps a number of orders unanswered, and remembers the acknowledged ones and their ends."""

    def __init__(self, user: str, password: str, seed: int) -> None:
        super().__init__(user, password)
        self._chance = random.Random(seed)
        self._next_ref = 1
        self._unanswered: set[int] = set()
        self.open_shares: dict[int, int] = {}
        """Shares that may still execute, of every acknowledged order."""

    def connect(self, port: int) -> None:
        """Log in, and forget unanswered requests, which the dead exchange may not have carried out.

        They are not repeated: a gap in the references is allowed.
        """
        super().connect(port)
        self._unanswered.clear()

    def hear(self, message: bytes) -> None:
        values = ouch5.decode_reply(message).fields
        if message[:1] == b"A":
            ref = int(values["user_ref_num"])
            self._unanswered.discard(ref)
            self.open_shares[ref] = int(values["quantity"])
        elif message[:1] in {b"E", b"C"}:
            self.open_shares[int(values["user_ref_num"])] -= int(values["quantity"])
        else:
            assert message[:1] == b"S", message

    def ask(self) -> None:
        chance, data = self._chance, b""
        while len(self._unanswered) < OUTSTANDING:
            live = [ref for ref, shares in self.open_shares.items() if shares] if chance.random() < 0.02 else []
            if live:
                ref = chance.choice(live)
                request = ouch5.encode_request("X", user_ref_num=ref, quantity=0)
            else:
                ref, self._next_ref = self._next_ref, self._next_ref + 1
                self._unanswered.add(ref)
                side = chance.choice("BS")
                request = ouch5.encode_request(
                    "O", user_ref_num=ref, side=side, quantity=chance.randint(1, 9), symbol=chance.choice(SYMBOLS),
                    price=10_000 + 100 * chance.randint(-9, 4) * (1 if side == "B" else -1), time_in_force="0",
                    display="Y", capacity="P", inter_market_sweep_eligibility="N", cross_type="N",
                    cl_ord_id=str(ref), options={},
                )  # fmt: skip
            data += soupbin.encode_packet(soupbin.UNSEQUENCED, request)
        if data and self.socket is not None:
            with suppress(ConnectionError):
                self.socket.sendall(data)


SYMBOLS: Sequence[str] = ("ACME", "GLOBEX")


def drive(clients: Sequence[Listener], deadline: float, now: Iterator[float]) -> None:
    """Let the clients send and receive until a deadline."""
    by_socket = {client.socket: client for client in clients if client.socket is not None}
    while (left := deadline - next(now)) > 0:
        for client in clients:
            client.ask()
        for readable in select.select(list(by_socket), [], [], min(left, 0.05))[0]:
            by_socket[readable].take()


class Uninterrupted:
    """Market that applies a journal from its first input on, without a snapshot or a restart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        rules = JournalReader(directory / "inputs").head.rules
        now = Now()
        self._encoders, protocols = all_outputs(rules, now)
        self.market = Market(rules, tuple(self._encoders.values()), protocols, now)
        self.inputs = 0
        self.said: dict[str, list[bytes]] = {}
        """All messages of each stream, by the name of its file."""

    def advance(self, inputs: int) -> None:
        """Apply the journal up to an input."""
        for number, batch in JournalReader(self._directory / "inputs").batches(self.inputs):
            for self.inputs, item in enumerate(batch, number):
                self.market.apply(item)
            self._encoders["text"].take()
            self._say(feed_name("itch"), self._encoders["itch"].take()[0])
            for teller in self.market.touched:
                self._say(private_name(teller.account.name, teller.account.protocol), teller.take()[0])
            self.market.touched.clear()
            if self.inputs >= inputs:
                break
        assert self.inputs == inputs, f"expected a batch that ends with input {inputs}"

    def _say(self, name: str, packets: bytes) -> None:
        messages = [packet.payload for packet in soupbin.PacketSplitter(len(packets) + 1).split(packets)]
        self.messages(name).extend(messages)

    def messages(self, name: str) -> list[bytes]:
        """Return all messages of a stream of packets so far."""
        return self.said.setdefault(name, [])
