"""What the parts of a run share: worker processes, database servers, hosts; each is started when first needed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Self

import psycopg

from chaos.team_hosts import Network
from chaos.team_postgres import TeamPostgres
from chaos.workers import Worker
from postgres_server import run_postgres


class Resources:
    """Started once, closed at the end of the run."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._crew: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def get_crew(self, size: int) -> list[Worker]:
        """Return idle worker processes."""
        while len(self._crew) < size:
            worker = self._crew[0].fork() if self._crew else Worker(Path(tempfile.mkdtemp(dir=self._folder)))
            self._held.callback(worker.close)
            self._crew.append(worker)
        return self._crew[:size]

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Create an empty PostgreSQL database; removed after the block."""
        name = f"reliability_{random.SystemRandom().randrange(10**9)}"
        with psycopg.connect(self._postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        yield self._postgres_url.replace("/postgres?", f"/{name}?")
        with psycopg.connect(self._postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @cached_property
    def network(self) -> Network:
        return self._held.enter_context(Network())

    @cached_property
    def team_postgres(self) -> TeamPostgres:
        server = TeamPostgres(self.network)
        self._held.callback(server.close)
        return server

    @cached_property
    def _postgres_url(self) -> str:
        return self._held.enter_context(run_postgres())

    @cached_property
    def _folder(self) -> str:
        return self._held.enter_context(tempfile.TemporaryDirectory(prefix="deepwork-crew-"))
