"""Reads and writes whole tables of SQLite and PostgreSQL, for copies and backups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from selectors import EVENT_WRITE, DefaultSelector
from typing import Any

from deepwork.kernel.database.seals import has_plain_table
from deepwork.kernel.database.tables import VERSION_TABLE, Table, Values
from deepwork.kernel.errors import StorageError

CHUNK_BYTES = 4 * 1024 * 1024
"""Approximate size of the part of a table that is held in memory."""
CHUNK_ROWS = 500


class SQLiteTableStore:
    """The tables of a SQLite file."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def read_version(self) -> str | None:
        if not has_plain_table(self._connection, VERSION_TABLE):
            return None
        return _get_only_value(self._fetch_tuples("SELECT version_num FROM alembic_version"))

    def list_tables(self) -> list[Table]:
        # Skip the shadow tables of full-text search; their virtual table has all data.
        names = self._fetch_tuples(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        return [self._describe_table(name) for (name,) in names]

    def _describe_table(self, name: str) -> Table:
        columns = self._fetch_tuples("SELECT name, pk FROM pragma_table_info(:name) ORDER BY cid", name=name)
        others = self._fetch_tuples('SELECT "table" FROM pragma_foreign_key_list(:name)', name=name)
        every = tuple(column for column, _ in columns)
        key = tuple(column for column, place in columns if place)
        return Table(name, every, key, frozenset(other for (other,) in others))

    def count(self, table: str) -> int:
        return int(self._fetch_tuples(f"SELECT count(*) FROM {_quote(table)}")[0][0])

    def measure_size(self) -> dict[str, int]:
        [(name,)] = self._fetch_tuples("SELECT file FROM pragma_database_list WHERE name = 'main'")
        log = Path(f"{name}-wal")
        return {"bytes": Path(name).stat().st_size, "log_bytes": log.stat().st_size if log.exists() else 0}

    def lift_time_limits(self) -> None:
        """Does nothing: SQLite has no such limits."""

    def lock_tables(self, tables: Sequence[Table]) -> None:
        """Does nothing: SQLite has only one writer at a time."""

    def read_rows(self, table: Table) -> Iterator[Values]:
        columns, key = map(_format_names, (table.columns, table.identifying_columns))
        # A map, not a generator, which would close the cursor at its end, possibly after the connection.
        return map(
            tuple, self._open_cursor().execute(f"SELECT {columns} FROM {_quote(table.name)} ORDER BY {key}")
        )

    def clear(self, tables: Sequence[Table]) -> None:
        # Rows may be deleted and inserted in any order; foreign keys are checked at the commit.
        self._open_cursor().execute("PRAGMA defer_foreign_keys = ON")
        for table in tables:
            self._open_cursor().execute(f"DELETE FROM {_quote(table.name)}")

    def fill(self, table: Table, rows: Iterable[Values]) -> None:
        values = ", ".join("?" * len(table.columns))
        into = f"{_quote(table.name)} ({_format_names(table.columns)})"
        self._open_cursor().executemany(f"INSERT INTO {into} VALUES ({values})", rows)

    def to_stored_form(self, table: Table, rows: Iterator[Values]) -> Iterator[Values]:  # noqa: ARG002 - as it came
        return rows

    def find_damage(self) -> list[str]:
        """Return the problems that SQLite's integrity check finds in the file."""
        found = [text for (text,) in self._fetch_tuples("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def _fetch_tuples(self, sql: str, /, **values: Any) -> list[Values]:
        return list(self._open_cursor().execute(sql, values))

    def _open_cursor(self) -> Any:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor


# The words of a text search vector, in their order.
_TSVECTOR_WORDS_SQL = """
    (SELECT coalesce(string_agg(lexeme, ' ' ORDER BY place, lexeme COLLATE "C"), '')
       FROM unnest({}) AS known (lexeme, places, weights), unnest(known.places) AS place)
"""
_NORMALISED_WORDS_SQL = _TSVECTOR_WORDS_SQL.format("to_tsvector('simple', words)")


class PostgreSQLTableStore:
    """The tables of a PostgreSQL database, in the current schema."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def read_version(self) -> str | None:
        if _get_only_value(self._fetch_tuples("SELECT to_regclass('alembic_version')::text")) is None:
            return None
        return _get_only_value(self._fetch_tuples("SELECT version_num FROM alembic_version"))

    def list_tables(self) -> list[Table]:
        keys, references = self._read_keys(), self._read_references()
        return [
            self._describe_table(name, types, keys, references)
            for name, types in sorted(self._column_types.items())
        ]

    @staticmethod
    def _describe_table(
        name: str, types: dict[str, str], keys: set[tuple[str, str]], references: set[tuple[str, str]]
    ) -> Table:
        words = frozenset(column for column, type in types.items() if type == "tsvector")
        key = tuple(column for column in types if (name, column) in keys)
        refers_to = frozenset(other for one, other in references if one == name)
        return Table(name, tuple(types), key, refers_to, words)

    @cached_property
    def _column_types(self) -> dict[str, dict[str, str]]:
        types: dict[str, dict[str, str]] = {}
        for table, column, type in self._fetch_tuples(
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

    def _read_keys(self) -> set[tuple[str, str]]:
        rows = self._fetch_tuples(
            """
            SELECT relname::text, attname::text
              FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
              JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
             WHERE indisprimary AND relnamespace = current_schema()::regnamespace
            """
        )
        return {(table, column) for table, column in rows}

    def _read_references(self) -> set[tuple[str, str]]:
        rows = self._fetch_tuples(
            """
            SELECT one.relname::text AS one, other.relname::text AS other
              FROM pg_constraint JOIN pg_class AS one ON one.oid = conrelid
              JOIN pg_class AS other ON other.oid = confrelid
             WHERE contype = 'f' AND one.relnamespace = current_schema()::regnamespace
            """
        )
        return {(one, other) for one, other in rows}

    def count(self, table: str) -> int:
        return int(self._fetch_tuples(f"SELECT count(*) FROM {_quote(table)}")[0][0])

    def measure_size(self) -> dict[str, int]:
        return {"bytes": self._fetch_tuples("SELECT pg_database_size(current_database())")[0][0]}

    def lift_time_limits(self) -> None:
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            self._connection.execute(f"SET LOCAL {limit} = 0")

    def lock_tables(self, tables: Sequence[Table]) -> None:
        names = _format_names(table.name for table in tables)
        self._connection.execute(f"LOCK TABLE {names} IN EXCLUSIVE MODE")

    def read_rows(self, table: Table) -> Iterator[Values]:
        self._connection.execute(f"DECLARE copied NO SCROLL CURSOR FOR {self._build_select(table)}")
        wanted = 20
        while chunk := self._fetch_tuples(f"FETCH {wanted} FROM copied"):
            yield from chunk
            # Adapt the number of rows to their length.
            length = sum(len(value) for row in chunk for value in row if isinstance(value, str))
            wanted = max(1, min(CHUNK_ROWS, 2 * wanted, CHUNK_BYTES * len(chunk) // (length + 1)))
        self._connection.execute("CLOSE copied")

    def _build_select(self, table: Table) -> str:
        types = self._column_types[table.name]
        read = [
            _TSVECTOR_WORDS_SQL.format(_quote(column)) if types[column] == "tsvector" else _quote(column)
            for column in table.columns
        ]
        # By bytes and with NULLs first, as SQLite sorts.
        ordered = [
            _quote(column) + (' COLLATE "C"' if types[column] in _TEXT_TYPES else "") + " NULLS FIRST"
            for column in table.identifying_columns
        ]
        named = (f"{how} AS {_quote(column)}" for how, column in zip(read, table.columns, strict=True))
        return f"SELECT {', '.join(named)} FROM {_quote(table.name)} ORDER BY {', '.join(ordered)}"

    def clear(self, tables: Sequence[Table]) -> None:
        for table in tables:
            self._connection.execute(f"DELETE FROM {_quote(table.name)}")

    def fill(self, table: Table, rows: Iterable[Values]) -> None:
        into = f"{_quote(table.name)} ({_format_names(table.columns)})"
        sound = (_require_no_nul(table, row) for row in rows)
        if table.words:
            # The server computes text search vectors from words; COPY accepts only plain values.
            marks = (
                "to_tsvector('simple', %s)" if column in table.words else "%s" for column in table.columns
            )
            self._insert_chunks(f"INSERT INTO {into} VALUES ({', '.join(marks)})", sound)
            return
        # One statement for the whole table, because rows may refer to later rows.
        with self._connection.cursor().copy(f"COPY {into} FROM STDIN") as copying:
            for row in sound:
                copying.write_row(row)
                self._flush()
        if "created_seq" in table.columns:
            self._advance_creation_order(table)

    def _advance_creation_order(self, table: Table) -> None:
        """Advance the sequence past the numbers of the copied rows."""
        sql = (
            "SELECT setval('creation_order', highest) FROM (SELECT max(created_seq) AS highest"
            f" FROM {_quote(table.name)}) AS filled, creation_order WHERE highest > last_value"
        )
        self._connection.execute(sql)

    def _flush(self) -> None:
        """Wait until the server has received the data; otherwise the driver buffers without limit."""
        while self._connection.pgconn.flush():
            with DefaultSelector() as selector:
                selector.register(self._connection.fileno(), EVENT_WRITE)
                selector.select()

    def _insert_chunks(self, sql: str, rows: Iterable[Values]) -> None:
        for chunk in _split_chunks(rows):
            self._connection.cursor().executemany(sql, chunk)

    def to_stored_form(self, table: Table, rows: Iterator[Values]) -> Iterator[Values]:
        places = [table.columns.index(column) for column in table.words]
        for chunk in _split_chunks(rows) if places else ():
            kept = [list(row) for row in chunk]
            for place in places:
                for row, words in zip(
                    kept, self._normalise_words([row[place] for row in chunk]), strict=True
                ):
                    row[place] = words
            yield from map(tuple, kept)
        if not places:
            yield from rows

    def _normalise_words(self, words: list[str]) -> list[str]:
        rows = self._fetch_tuples(
            f"SELECT {_NORMALISED_WORDS_SQL} AS words"
            " FROM unnest(%(words)s::text[]) WITH ORDINALITY AS given (words, place) ORDER BY place",
            words=words,
        )
        return [kept for (kept,) in rows]

    def _fetch_tuples(self, sql: str, /, **values: Any) -> list[Values]:
        cursor = self._connection.execute(sql, values) if values else self._connection.execute(sql)
        return [tuple(row.values()) for row in cursor.fetchall()]


_TEXT_TYPES = {"text", "character varying"}


def _get_only_value(rows: Sequence[Values]) -> str | None:
    return rows[0][0] if rows else None


def _split_chunks(rows: Iterable[Values]) -> Iterator[Sequence[Values]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK_ROWS)):
        yield chunk


def _require_no_nul(table: Table, row: Values) -> Values:
    for column, value in zip(table.columns, row, strict=True):
        if isinstance(value, str) and "\0" in value:
            known = tuple(row[table.columns.index(each)] for each in table.identifying_columns)
            raise StorageError(
                f"{column} in {table.format_row(known)} contains a NUL, which PostgreSQL cannot store.",
                suggestion="Remove the NUL, then copy again.",
            )
    return row


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(map(_quote, names))


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
