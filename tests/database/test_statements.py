from __future__ import annotations

from deepwork.kernel.database.engine import (
    build_insert,
    build_where,
    format_colon_placeholder,
    format_percent_placeholder,
    prepare_statement,
)


def test_each_driver_gets_its_own_placeholders():
    sql = "SELECT * FROM t WHERE a = :a AND b = :b"

    assert prepare_statement(sql, {"a": 1, "b": 2}, format_colon_placeholder)[0] == sql
    assert (
        prepare_statement(sql, {"a": 1, "b": 2}, format_percent_placeholder)[0]
        == "SELECT * FROM t WHERE a = %(a)s AND b = %(b)s"
    )


def test_a_list_is_expanded():
    sql, values = prepare_statement(
        "SELECT :x WHERE a IN :names", {"x": 0, "names": ["p", "q"]}, format_colon_placeholder
    )

    assert sql == "SELECT :x WHERE a IN (:names_0, :names_1)"
    assert values == {"x": 0, "names_0": "p", "names_1": "q"}


def test_an_empty_list_matches_nothing_on_both_databases():
    assert prepare_statement("a IN :names", {"names": []}, format_percent_placeholder)[0] == "a IN (NULL)"


def test_percent_signs_casts_and_words_with_colons_are_not_changed():
    sql = "SELECT '50%', x::bigint, 'agent:updated', :a"

    assert prepare_statement(sql, {"a": 1}, format_colon_placeholder)[0] == sql
    assert (
        prepare_statement(sql, {"a": 1}, format_percent_placeholder)[0]
        == "SELECT '50%%', x::bigint, 'agent:updated', %(a)s"
    )


def test_conditions_without_a_value_are_left_out():
    assert build_where({"a = :a": 1, "b = :b": None}) == "WHERE a = :a"
    assert build_where({"a = :a": None}) == ""


def test_an_insert_names_its_columns():
    assert build_insert("t", ("a", "b")) == "INSERT INTO t (a, b) VALUES (:a, :b)"


def test_a_sqlite_limit_is_an_expression_so_that_its_query_is_planned_once():
    assert (
        prepare_statement("SELECT 1 LIMIT :n", {"n": 3}, format_colon_placeholder)[0]
        == "SELECT 1 LIMIT :n + 0"
    )
    assert (
        prepare_statement("SELECT 1 LIMIT :n", {"n": 3}, format_percent_placeholder)[0]
        == "SELECT 1 LIMIT %(n)s"
    )
