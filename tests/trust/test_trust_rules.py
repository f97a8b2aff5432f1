from __future__ import annotations

from deepwork.kernel.user_settings import compute_digest, find_untrusted, render_untrusted_line


def test_equal_definitions_have_equal_digests_however_they_are_written():
    assert compute_digest({"b": 1, "a": ["x"]}) == compute_digest({"a": ("x",), "b": 1})
    assert compute_digest(["ab"]) != compute_digest(["a", "b"])
    assert compute_digest("1") != compute_digest(1)


def test_a_definition_is_untrusted_unless_it_is_pinned_with_its_value():
    definitions = {"database": "a.db", "port": 9000, "global": True}
    digests = {"database": compute_digest("a.db"), "port": compute_digest(9001), "old": "0"}

    assert find_untrusted(definitions, digests) == ("port", "global")


def test_one_line_names_the_keys_and_the_command():
    line = render_untrusted_line(["database", "port"])

    assert "database, port" in line
    assert "`deepwork trust`" in line
    assert "\n" not in line
