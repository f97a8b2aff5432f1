"""All rows of a database: how SQLite and PostgreSQL list, give and take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from selectors import EVENT_WRITE, DefaultSelector
from typing import Any

from deepwork.database.tables import Table, Values
from deepwork.errors import StorageError

CHUNK_BYTES = 4 * 1024 * 1024
"""About how much of a table is held at a time."""
CHUNK_ROWS = 500


class SQLiteTables:
    """The rows of a file."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def version(self) -> str | None:
        if not self._tuples("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"):
            return None
        return _only(self._tuples("SELECT version_num FROM alembic_version"))

    def all(self) -> list[Table]:
        # Shadow tables are how full text is kept; the virtual table in front of them has all there is.
        names = self._tuples(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        return [self._table(name) for (name,) in names]

    def _table(self, name: str) -> Table:
        columns = self._tuples("SELECT name, pk FROM pragma_table_info(:name) ORDER BY cid", name=name)
        others = self._tuples('SELECT "table" FROM pragma_foreign_key_list(:name)', name=name)
        every = tuple(column for column, _ in columns)
        key = tuple(column for column, place in columns if place)
        return Table(name, every, key, frozenset(other for (other,) in others))

    def count(self, table: str) -> int:
        return int(self._tuples(f"SELECT count(*) FROM {_quoted(table)}")[0][0])

    def size(self) -> dict[str, int]:
        [(name,)] = self._tuples("SELECT file FROM pragma_database_list WHERE name = 'main'")
        log = Path(f"{name}-wal")
        return {"bytes": Path(name).stat().st_size, "log_bytes": log.stat().st_size if log.exists() else 0}

    def take_time(self) -> None:
        """Nothing to put away: SQLite knows no such limits."""

    def keep_others_out(self, tables: Sequence[Table]) -> None:
        """Whoever writes is alone anyway."""

    def rows(self, table: Table) -> Iterator[Values]:
        columns, key = map(_list, (table.columns, table.known_by))
        # A map, no generator: that would close the cursor when it ends, which may be after the connection.
        return map(
            tuple, self._cursor().execute(f"SELECT {columns} FROM {_quoted(table.name)} ORDER BY {key}")
        )

    def clear(self, tables: Sequence[Table]) -> None:
        # Rows that refer to each other may go and come in any order; the commit sees that all is right.
        self._cursor().execute("PRAGMA defer_foreign_keys = ON")
        for table in tables:
            self._cursor().execute(f"DELETE FROM {_quoted(table.name)}")

    def fill(self, table: Table, rows: Iterable[Values]) -> None:
        values = ", ".join("?" * len(table.columns))
        into = f"{_quoted(table.name)} ({_list(table.columns)})"
        self._cursor().executemany(f"INSERT INTO {into} VALUES ({values})", rows)

    def as_kept(self, table: Table, rows: Iterator[Values]) -> Iterator[Values]:  # noqa: ARG002 - as it came
        return rows

    def damage(self) -> list[str]:
        """What is wrong with the file, if anything."""
        found = [text for (text,) in self._tuples("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def _tuples(self, sql: str, /, **values: Any) -> list[Values]:
        return list(self._cursor().execute(sql, values))

    def _cursor(self) -> Any:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor


# The words of a text search vector, in their order.
_PLAIN = """
    (SELECT coalesce(string_agg(lexeme, ' ' ORDER BY place, lexeme COLLATE "C"), '')
       FROM unnest({}) AS known (lexeme, places, weights), unnest(known.places) AS place)
"""
_MADE = _PLAIN.format("to_tsvector('simple', words)")


class PostgreSQLTables:
    """The rows of a database on a server, in the schema where deepwork's tables are."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def version(self) -> str | None:
        if _only(self._tuples("SELECT to_regclass('alembic_version')::text")) is None:
            return None
        return _only(self._tuples("SELECT version_num FROM alembic_version"))

    def all(self) -> list[Table]:
        keys, references = self._keys(), self._references()
        return [self._table(name, types, keys, references) for name, types in sorted(self._types.items())]

    @staticmethod
    def _table(
        name: str, types: dict[str, str], keys: set[tuple[str, str]], references: set[tuple[str, str]]
    ) -> Table:
        words = frozenset(column for column, type in types.items() if type == "tsvector")
        key = tuple(column for column in types if (name, column) in keys)
        refers_to = frozenset(other for one, other in references if one == name)
        return Table(name, tuple(types), key, refers_to, words)

    @cached_property
    def _types(self) -> dict[str, dict[str, str]]:
        types: dict[str, dict[str, str]] = {}
        for table, column, type in self._tuples(
            """
            SELECT relname::text, attname::text, format_type(atttypid, NULL)
              FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
             WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
               AND attnum > 0 AND NOT attisdropped
             ORDER BY relname, attnum
            """
        ):
            types.setdefault(table, {})[column] = type
        return types

    def _keys(self) -> set[tuple[str, str]]:
        rows = self._tuples(
            """
            SELECT relname::text, attname::text
              FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
              JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
             WHERE indisprimary AND relnamespace = current_schema()::regnamespace
            """
        )
        return {(table, column) for table, column in rows}

    def _references(self) -> set[tuple[str, str]]:
        rows = self._tuples(
            """
            SELECT one.relname::text AS one, other.relname::text AS other
              FROM pg_constraint JOIN pg_class AS one ON one.oid = conrelid
              JOIN pg_class AS other ON other.oid = confrelid
             WHERE contype = 'f' AND one.relnamespace = current_schema()::regnamespace
            """
        )
        return {(one, other) for one, other in rows}

    def count(self, table: str) -> int:
        return int(self._tuples(f"SELECT count(*) FROM {_quoted(table)}")[0][0])

    def size(self) -> dict[str, int]:
        return {"bytes": self._tuples("SELECT pg_database_size(current_database())")[0][0]}

    def take_time(self) -> None:
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            self._connection.execute(f"SET LOCAL {limit} = 0")

    def keep_others_out(self, tables: Sequence[Table]) -> None:
        names = _list(table.name for table in tables)
        self._connection.execute(f"LOCK TABLE {names} IN EXCLUSIVE MODE")

    def rows(self, table: Table) -> Iterator[Values]:
        self._connection.execute(f"DECLARE copied NO SCROLL CURSOR FOR {self._selection(table)}")
        wanted = 20
        while chunk := self._tuples(f"FETCH {wanted} FROM copied"):
            yield from chunk
            # Rows may be of any length: as many as were just right this time.
            length = sum(len(value) for row in chunk for value in row if isinstance(value, str))
            wanted = max(1, min(CHUNK_ROWS, 2 * wanted, CHUNK_BYTES * len(chunk) // (length + 1)))
        self._connection.execute("CLOSE copied")

    def _selection(self, table: Table) -> str:
        types = self._types[table.name]
        read = [
            _PLAIN.format(_quoted(column)) if types[column] == "tsvector" else _quoted(column)
            for column in table.columns
        ]
        # By bytes and with nothing first, as SQLite sorts.
        ordered = [
            _quoted(column) + (' COLLATE "C"' if types[column] in _TEXTS else "") + " NULLS FIRST"
            for column in table.known_by
        ]
        named = (f"{how} AS {_quoted(column)}" for how, column in zip(read, table.columns, strict=True))
        return f"SELECT {', '.join(named)} FROM {_quoted(table.name)} ORDER BY {', '.join(ordered)}"

    def clear(self, tables: Sequence[Table]) -> None:
        for table in tables:
            self._connection.execute(f"DELETE FROM {_quoted(table.name)}")

    def fill(self, table: Table, rows: Iterable[Values]) -> None:
        into = f"{_quoted(table.name)} ({_list(table.columns)})"
        sound = (_without_nul(table, row) for row in rows)
        if table.words:
            # A text search vector is made by the server, of words; COPY takes values only.
            marks = (
                "to_tsvector('simple', %s)" if column in table.words else "%s" for column in table.columns
            )
            self._insert(f"INSERT INTO {into} VALUES ({', '.join(marks)})", sound)
            return
        # One statement for the whole table: rows may refer to rows that come after them.
        with self._connection.cursor().copy(f"COPY {into} FROM STDIN") as copying:
            for row in sound:
                copying.write_row(row)
                self._send()
        if "created_seq" in table.columns:
            self._pass_creation_order(table)

    def _pass_creation_order(self, table: Table) -> None:
        """Let the sequence go on after the numbers that the rows brought."""
        self._connection.execute(
            "SELECT setval('creation_order', highest) FROM (SELECT max(created_seq) AS highest"
            f" FROM {_quoted(table.name)}) AS filled, creation_order WHERE highest > last_value"
        )

    def _send(self) -> None:
        """Wait until the server has taken what is on its way: the driver would pile it up without end."""
        while self._connection.pgconn.flush():
            with DefaultSelector() as selector:
                selector.register(self._connection.fileno(), EVENT_WRITE)
                selector.select()

    def _insert(self, sql: str, rows: Iterable[Values]) -> None:
        for chunk in _chunks(rows):
            self._connection.cursor().executemany(sql, chunk)

    def as_kept(self, table: Table, rows: Iterator[Values]) -> Iterator[Values]:
        places = [table.columns.index(column) for column in table.words]
        for chunk in _chunks(rows) if places else ():
            kept = [list(row) for row in chunk]
            for place in places:
                for row, words in zip(kept, self._as_kept([row[place] for row in chunk]), strict=True):
                    row[place] = words
            yield from map(tuple, kept)
        if not places:
            yield from rows

    def _as_kept(self, words: list[str]) -> list[str]:
        rows = self._tuples(
            f"SELECT {_MADE} AS words"
            " FROM unnest(%(words)s::text[]) WITH ORDINALITY AS given (words, place) ORDER BY place",
            words=words,
        )
        return [kept for (kept,) in rows]

    def _tuples(self, sql: str, /, **values: Any) -> list[Values]:
        cursor = self._connection.execute(sql, values) if values else self._connection.execute(sql)
        return [tuple(row.values()) for row in cursor.fetchall()]


_TEXTS = {"text", "character varying"}


def _only(rows: Sequence[Values]) -> str | None:
    return rows[0][0] if rows else None


def _chunks(rows: Iterable[Values]) -> Iterator[Sequence[Values]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK_ROWS)):
        yield chunk


def _without_nul(table: Table, row: Values) -> Values:
    for column, value in zip(table.columns, row, strict=True):
        if isinstance(value, str) and "\0" in value:
            known = tuple(row[table.columns.index(each)] for each in table.known_by)
            raise StorageError(
                f"{column} in {table.named(known)} holds a NUL, which PostgreSQL cannot keep.",
                suggestion="Change that text, then copy again.",
            )
    return row


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
