"""Finding and filling the variables of templates."""

from __future__ import annotations

import pytest

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.work.templates.models import (
    Template,
    Variable,
    collect_variables,
    fill_template,
    render_source,
    validate_template,
)
from plans.make import make_outline
from templates.make import build_template


def get_names(*variables: Variable) -> list[str]:
    return [each.name for each in variables]


def test_placeholders_are_found_in_every_text_of_a_task():
    task = make_outline(
        "{{a}}", description="{{ b }}", parallel_group="{{c}}", depends_on=["{{d}}"],
        files_likely_affected=("src/{{e}}/**",), required_capabilities=("{{f}}",),
    )  # fmt: skip

    assert get_names(*collect_variables([task], [])) == list("abcdef")


def test_declared_variables_are_listed_first_and_once():
    declared = [Variable("z", "unused"), Variable("b", required=False)]

    assert get_names(*collect_variables([make_outline("{{a}} {{b}} {{a}}")], declared)) == ["z", "b", "a"]


@pytest.mark.parametrize("text", ["{{}}", "{{ }}", "{{a-b}}", "{{user.name}}", "{a}", "{ {a} }", "{{a b}}"])
def test_text_that_is_not_a_placeholder_is_kept_unchanged(text: str):
    made = build_template(make_outline("a", description=text))

    assert made.variables == ()
    assert fill_template(made, {}).tasks[0].description == text


def test_every_placeholder_is_filled_with_or_without_spaces():
    made = build_template(
        make_outline("Build {{x}}"),
        make_outline("Ship {{ x }}", description="{{x}}{{\tx\n}}", depends_on=["Build {{  x}}"], parallel_group="g{{x}}",
                files_likely_affected=("{{x}}/*",), required_capabilities=("{{x}}",)),
    )  # fmt: skip

    build, ship = fill_template(made, {"x": "it"}).tasks

    assert (build.name, ship.name) == ("Build it", "Ship it")
    assert (ship.description, ship.depends_on, ship.parallel_group) == ("itit", ("Build it",), "git")
    assert (ship.files_likely_affected, ship.required_capabilities) == (("it/*",), ("it",))


def test_placeholders_in_values_are_not_expanded():
    made = build_template(make_outline("a", description="{{x}}{{y}}"))

    assert fill_template(made, {"x": "{{y}}", "y": r"\1"}).tasks[0].description == r"{{y}}\1"


def test_omitted_variables_use_their_default_or_are_empty_if_optional():
    made = build_template(
        make_outline("a", description="{{x}}|{{y}}"),
        variables=(Variable("x", default="d"), Variable("y", required=False)),
    )

    assert fill_template(made, {}).tasks[0].description == "d|"
    assert fill_template(made, {"x": "", "y": "e"}).tasks[0].description == "|e"
    assert fill_template(made, {}).values == {"x": "d", "y": ""}


def test_groups_files_and_capabilities_that_become_empty_are_dropped():
    made = build_template(
        make_outline("a", parallel_group="{{x}}", files_likely_affected=("{{x}}", "b"), required_capabilities=("{{x}}",))
    )  # fmt: skip

    [task] = fill_template(made, {"x": " "}).tasks

    assert (task.parallel_group, task.files_likely_affected, task.required_capabilities) == (None, ("b",), ())


def test_all_missing_variables_are_named():
    made = build_template(make_outline("{{x}}"), variables=(Variable("y"), Variable("z", default="")))

    with pytest.raises(InvalidInput) as refused:
        fill_template(made, {})

    assert refused.value.code is Code.MISSING_VARIABLES
    assert refused.value.message == "Template 'release' needs a value for 'y', 'x'."


def test_a_value_for_an_unknown_variable_is_refused_with_a_suggestion():
    with pytest.raises(InvalidInput) as refused:
        fill_template(build_template(make_outline("{{feature}}")), {"feature": "a", "featrue": "b"})

    assert refused.value.message == ("Template 'release' has no variable 'featrue'. Did you mean 'feature'?")
    assert refused.value.suggestion == "Its variables: 'feature'."


def test_values_that_make_task_names_equal_are_refused():
    made = build_template(make_outline("Test {{x}}"), make_outline("Test {{y}}"))

    assert len(fill_template(made, {"x": "1", "y": "2"}).tasks) == 2
    with pytest.raises(InvalidInput) as refused:
        fill_template(made, {"x": "1", "y": " 1 "[1]})
    assert refused.value.code is Code.DUPLICATE_TASK_NAME


def test_a_value_that_makes_a_task_name_empty_is_refused():
    with pytest.raises(InvalidInput, match="has no name"):
        fill_template(build_template(make_outline("{{x}}")), {"x": " "})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (build_template(make_outline("{{x}}")), "The name of the task '{{x}}' would have 1,000 characters; at most 200"),
        (build_template(make_outline("a", description="{{x}}" * 2000)), "A field of the task 'a' would have 2,000,000 characters"),
        (build_template(*(make_outline(f"t{n}", description="{{x}}" * 1000) for n in range(10))), "The plan would have more than"),
    ],
)  # fmt: skip
def test_the_size_of_a_filled_template_is_limited(made: Template, said: str):
    with pytest.raises(InvalidInput) as refused:
        fill_template(made, {"x": "y" * 1000})

    assert refused.value.code is Code.TOO_LARGE
    assert refused.value.message.startswith(said)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ([Variable("a b")], "The variable name 'a b' is invalid"),
        ([Variable("")], "The variable name '' is invalid"),
        ([Variable("x"), Variable("y"), Variable("x")], "The variable 'x' is declared twice."),
        ([Variable(f"v{n}") for n in range(1001)], "1,001 variables; at most 1,000"),
    ],
)
def test_invalid_variables_are_refused(variables: list[Variable], said: str):
    with pytest.raises(InvalidInput, match=r"\A" + said.replace("(", r"\(")):
        validate_template([make_outline("a")], variables)


def test_a_template_is_validated_with_its_placeholders_unfilled():
    validate_template([make_outline("Build {{x}}"), make_outline("Ship", depends_on=["Build {{ x }}"])], [])

    with pytest.raises(InvalidInput) as refused:
        validate_template([make_outline("Build {{x}}"), make_outline("Build {{ x }}")], [])
    assert refused.value.code is Code.DUPLICATE_TASK_NAME


def test_the_source_names_the_template_and_the_values():
    made = build_template(
        make_outline("{{x}}"), description="How we release.",
        variables=(Variable("x", "Which version."), Variable("notes", required=False)),
    )  # fmt: skip

    assert render_source(made, "Release 2", {"x": "2.0", "notes": ""}) == (
        "# Release 2\n\nFrom the template release.\nHow we release.\n\n"
        "- x (Which version): 2.0\n- notes: (nothing)\n"
    )


def test_names_in_the_source_add_no_headings():
    made = build_template(make_outline("a"), name="release\n# Done")

    text = render_source(made, "Release\n\n# 2", {})

    assert text == "# Release # 2\n\nFrom the template release # Done.\n"


def test_a_source_that_is_too_large_is_refused():
    made = build_template(make_outline("a"), variables=(Variable("x"),))

    with pytest.raises(InvalidInput) as refused:
        render_source(made, "w", {"x": "y" * 2**20})
    assert refused.value.code is Code.TOO_LARGE
