"""The cluster of `deploy/docker-compose.yml` under a name of its own: brought up, hurt, asked, and taken down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Final

import msgspec

from tests.cluster.engine import Engine, EngineError

__all__ = ["COMPOSE_FILE", "STATE", "ComposeCluster", "Container", "MakeCluster"]

ROOT: Final = Path(__file__).parents[2]
COMPOSE_FILE: Final = ROOT / "deploy" / "docker-compose.yml"
STATE: Final = "/var/lib/deltabook"
"""Where the volume is, in every container."""
VOLUME: Final = "state"
"""The volume's name in the compose file."""
DEADLINE_S: Final = 600.0
"""Nothing is waited for any longer: a slow machine is no failure, a stuck container is."""
_LOOK_S: Final = 0.25
_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


class Container(msgspec.Struct, frozen=True):
    """One container as the engine sees it."""

    name: str
    """Of the engine: `PROJECT-SERVICE-NUMBER`."""
    state: str
    """created, running, paused, restarting or exited."""
    health: str
    """starting, healthy, unhealthy; empty without a health check or while it does not run."""
    exit_code: int
    """Of its last end; 0 while it runs."""
    restarts: int
    """How often the engine has started it again by itself."""
    was_out_of_memory: bool
    """The kernel ended it at its memory limit."""


class ComposeCluster:
    """A project of compose. As a context it comes up healthy and goes down with its volumes, whatever happens.

    Services are named as in the compose file. Where a service has several containers, ``index`` counts them from 1.
    Every method raises `EngineError` when the engine refuses or the deadline passes.
    """

    def __init__(
        self,
        engine: Engine,
        project: str,
        secrets: Path,
        *,
        image: str,
        workers: int = 2,
        services: Sequence[str] = (),
        profiles: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        overrides: Sequence[Path] = (),
    ) -> None:
        """``secrets`` is a directory made by `deltabook cluster secrets`; ``services`` are those that come up, all of
        the profiles if there are none; ``overrides`` are further compose files, which have the last word;
        ``environment`` fills the compose file's variables (see its head)."""
        self.engine = engine
        self.project = project
        self.workers = workers
        self._files = [str(COMPOSE_FILE), *map(str, overrides)]
        self._aliases: dict[tuple[str, str], list[str]] = {}
        """Container and network → the names that it had there when it was cut off."""
        self._profiles = tuple(profiles)
        self._services = tuple(services)
        self._environment = {
            "DELTABOOK_IMAGE": image,
            "DELTABOOK_SECRETS": str(secrets),
            "DELTABOOK_DASHBOARD_PORT": "0",
            "DELTABOOK_SPARK_UI_PORT": "0",
            "DELTABOOK_HISTORY_PORT": "0",
            "DELTABOOK_PROMETHEUS_PORT": "0",
            "DELTABOOK_RUN_ID": project,
            **(environment or {}),
        }

    def __enter__(self) -> ComposeCluster:
        try:
            self.up()
        except BaseException as error:
            error.add_note(self.last_words())
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, Exception):
            error.add_note(self.last_words())
        self.down()

    # The project as a whole

    def compose(self, *arguments: str, timeout_s: float = DEADLINE_S) -> str:
        """What `docker compose ARGUMENTS` prints for this project."""
        files = [part for file in self._files for part in ("-f", file)]
        profiles = [part for profile in self._profiles for part in ("--profile", profile)]
        return self.engine.run(
            "compose",
            "-p",
            self.project,
            *files,
            *profiles,
            *arguments,
            timeout_s=timeout_s,
            environment=self._environment,
            directory=ROOT,
        )

    def up(self, *services: str, wait: bool = True) -> float:
        """Start some services or those there are; seconds until they were healthy, or started if nobody waits."""
        begin_s = time.monotonic()
        services = services or self._services
        waiting = ["--wait", "--wait-timeout", str(int(DEADLINE_S))] if wait else []
        scale = [] if services and "spark-worker" not in services else ["--scale", f"spark-worker={self.workers}"]
        self.compose("up", "-d", "--no-build", "--quiet-pull", *waiting, *scale, *services, timeout_s=DEADLINE_S + 60)
        return time.monotonic() - begin_s

    def scale(self, workers: int) -> None:
        """Have so many workers from now on; those that are there stay."""
        self.workers = workers
        self.compose("up", "-d", "--no-build", "--no-recreate", "--scale", f"spark-worker={workers}", "spark-worker")

    def down(self, *, volumes: bool = True) -> None:
        """Stop and remove the containers and networks, and the volume unless it is to stay."""
        self.compose("down", "--timeout", "20", "--remove-orphans", *(["--volumes"] if volumes else []))

    def services(self) -> list[str]:
        """Names of the services that are up, sorted."""
        return sorted(filter(None, self.compose("ps", "--services", "--all").split()))

    def last_words(self, lines: int = 40) -> str:
        """State and last log lines of every container, for the message of a failure."""
        try:
            told = [str(self.container(service)) for service in self.services()]
            return "\n".join([*told, self.compose("logs", "--no-color", "--tail", str(lines))])
        except EngineError as error:
            return f"and the cluster cannot be asked any more: {error}"

    # One container

    def container(self, service: str, index: int = 1) -> Container:
        """How a container does."""
        found = json.loads(self.engine.run("inspect", self.name(service, index)))[0]
        state = found["State"]
        return Container(
            name=found["Name"].lstrip("/"),
            state=state["Status"],
            health=state.get("Health", {}).get("Status", "") if state["Running"] else "",
            exit_code=state["ExitCode"],
            restarts=found["RestartCount"],
            was_out_of_memory=state["OOMKilled"],
        )

    def name(self, service: str, index: int = 1) -> str:
        """The engine's name for a container."""
        return f"{self.project}-{service}-{index}"

    def execute(
        self, service: str, *command: str, index: int = 1, timeout_s: float = DEADLINE_S, user: str = ""
    ) -> str:
        """What a command prints that is run in a container; raises `EngineError` with its words if it fails."""
        who = ["--user", user] if user else []
        return self.engine.run("exec", *who, self.name(service, index), *command, timeout_s=timeout_s)

    def ask(self, service: str, *arguments: str, index: int = 1) -> Any:
        """What `deltabook ARGUMENTS --json` answers in a container, which knows where every part is and its tokens."""
        return json.loads(self.execute(service, "deltabook", *arguments, "--json", index=index))

    def health(self, service: str) -> Any:
        """What the service's health check says, with its figures: see `deltabook health`."""
        return json.loads(self.execute(service, "sh", "-c", "deltabook health $DELTABOOK_HEALTH --json || true"))

    def kill(self, service: str, index: int = 1, signal: str = "KILL") -> None:
        """Send a signal to a container's first process. Compose's restart policy does not start it again: `start`."""
        self.engine.run("kill", "--signal", signal, self.name(service, index))

    def kill_within(self, service: str, pattern: str, index: int = 1, signal: str = "KILL") -> None:
        """Send a signal to the processes within a container whose command line holds ``pattern``; there must be one.

        The container's own process dies of it as of a failure, so that the restart policy starts it again.
        """
        script = (
            "n=0; for d in /proc/[0-9]*; do p=${d#/proc/}; [ $p = $$ ] && continue; "
            'if tr "\\0" " " <$d/cmdline 2>/dev/null | grep -qF -- "$1"; then kill -s "$2" $p && n=$((n+1)); fi; done; '
            "[ $n -gt 0 ]"
        )
        self.execute(service, "sh", "-c", script, "sh", pattern, signal, index=index)

    def start(self, *services: str) -> None:
        """Start containers that are stopped or were killed."""
        self.compose("start", *services)

    def stop(self, *services: str, timeout_s: int = 30) -> None:
        """SIGTERM, and SIGKILL after so many seconds."""
        self.compose("stop", "--timeout", str(timeout_s), *services)

    def pause(self, service: str, index: int = 1) -> None:
        """Freeze every process of a container."""
        self.engine.run("pause", self.name(service, index))

    def unpause(self, service: str, index: int = 1) -> None:
        """Let them go on."""
        self.engine.run("unpause", self.name(service, index))

    def disconnect(self, service: str, network: str = "cluster", index: int = 1) -> None:
        """Cut a container from one of the compose file's networks."""
        name, full = self.name(service, index), f"{self.project}_{network}"
        known = json.loads(self.engine.run("inspect", name))[0]["NetworkSettings"]["Networks"]
        self._aliases[name, full] = known[full]["Aliases"] or []
        self.engine.run("network", "disconnect", full, name)

    def connect(self, service: str, network: str = "cluster", index: int = 1) -> None:
        """Heal the cut: the container has the names in the network again that it had."""
        name, full = self.name(service, index), f"{self.project}_{network}"
        aliases = [part for alias in self._aliases.pop((name, full), [service]) for part in ("--alias", alias)]
        self.engine.run("network", "connect", *aliases, full, name)

    # What can be seen from outside

    def published(self, service: str, port: int, index: int = 1) -> str:
        """``127.0.0.1:PORT`` at which a container's port is published."""
        return self.engine.run("port", self.name(service, index), f"{port}/tcp").split()[0]

    def logs(self, service: str, *, since: str = "") -> str:
        """What a service's containers have written, standard output and error; ``since`` as docker takes it."""
        return self.compose("logs", "--no-color", "--no-log-prefix", *(["--since", since] if since else []), service)

    def memory(self) -> dict[str, int]:
        """Container → bytes of memory that it uses now."""
        names = [name for name in self.compose("ps", "--format", "{{.Name}}").split() if name]
        lines = self.engine.run("stats", "--no-stream", "--format", "{{.Name}}\t{{.MemUsage}}", *names).splitlines()
        return {name: _bytes(used.split("/")[0].strip()) for name, used in (line.split("\t") for line in lines)}

    def wait_until(self, claim: Callable[[], bool], words: str, timeout_s: float = DEADLINE_S) -> float:
        """Seconds until a claim about the cluster holds; raises `EngineError` with ``words`` and the last logs."""
        begin_s = time.monotonic()
        while True:
            try:
                if claim():
                    return time.monotonic() - begin_s
            except EngineError as error:  # a container that is being started cannot be asked yet
                last = str(error)
            else:
                last = "it does not hold"
            if time.monotonic() - begin_s > timeout_s:
                raise EngineError(f"expected {words} within {timeout_s:g} s: {last}\n{self.last_words()}")
            self.pass_time(_LOOK_S)

    def wait_healthy(self, service: str, index: int = 1) -> float:
        """Seconds until a container runs and is healthy."""
        return self.wait_until(lambda: self.container(service, index).health == "healthy", f"a healthy {service}")

    @staticmethod
    def pass_time(seconds: float) -> None:
        """Let the cluster run for so long: real containers have no clock that could be moved."""
        Event().wait(seconds)

    # The volume

    def copy_out(self, source: str, target: Path) -> None:
        """Copy a file or folder of the volume, named below it, to a path of this machine that is not there yet.

        Works while nothing runs, too: a container that is stopped still shows its volume. What is copied belongs to
        whoever runs the tests.
        """
        service = next(name for name in ("runtime", "exchange", *self.services()) if name in self.services())
        target.parent.mkdir(parents=True, exist_ok=True)
        self.engine.run("cp", f"{self.name(service)}:{STATE}/{source}", str(target))
        if os.getuid() == 0:
            for path in [target, *target.rglob("*")]:
                os.chown(path, 0, 0, follow_symlinks=False)

    def copy_in(self, source: Path, target: str) -> None:
        """Copy a file of this machine to the volume, where its owner is the containers' user."""
        data = source.read_bytes()
        name = self.name("runtime")
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1"'
        self.engine.run("exec", "-i", name, "sh", "-c", script, "sh", f"{STATE}/{target}", stdin=data)


MakeCluster = Callable[..., ComposeCluster]
"""What the fixture `make_cluster` is: arguments are those of `ComposeCluster` by name."""


def _bytes(text: str) -> int:
    """``12.5MiB`` as bytes."""
    unit = text.lstrip("0123456789.")
    return int(float(text.removesuffix(unit)) * _UNITS[unit])
