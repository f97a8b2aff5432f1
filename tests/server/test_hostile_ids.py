"""Whatever is given as an id, a call ends with an error that names the problem, not with one of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from application import make_app
from cli.run import run_deepwork
from dashboard.make import create_client
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import OperationSpec
from deepwork.kernel.answers import is_id_parameter
from deepwork.kernel.call import Call
from deepwork.kernel.errors import DeepworkError
from deepwork.views.dashboard.endpoint_registry import ROUTES

HOSTILE_IDS = {
    "a megabyte": "x" * 1024 * 1024,
    "longer than a file name": "x" * 300,
    "slashes": "a/b/c",
    "a way up": "../../../../etc/passwd",
    "dots": "..",
    "an absolute path": "/etc/passwd",
    "NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "a wildcard": "*",
    "nothing": "",
    "whitespace": " \t\n",
    "an option": "--help",
}

MAX_SENT = 50_000
"""Clients of HTTP do not send longer addresses."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    app = make_app(folder := tmp_path_factory.mktemp("project"), str(folder / "deepwork.db"))
    yield app
    app.close()


@pytest.mark.parametrize("id", HOSTILE_IDS.values(), ids=HOSTILE_IDS.keys())
def test_no_tool_fails_inside_for_any_id(project: Application, id: str):
    specs = project.operations.values()
    calls = [(spec, name) for spec in specs for name in list_id_parameters(spec)]

    failures = [error for spec, name in calls if (error := find_failure(project, spec, name, id))]

    assert len(calls) > 80
    assert failures == []


@pytest.mark.parametrize("id", HOSTILE_IDS.values(), ids=HOSTILE_IDS.keys())
def test_no_address_fails_inside_for_any_id(project: Application, id: str):
    page = create_client(project)
    text = quote(id[:MAX_SENT], safe="", errors="surrogatepass").replace(".", "%2E")
    parameters = {each.path: list(project.operations[each.operation].parameter_names) for each in ROUTES}
    addresses = [each for path, names in parameters.items() for each in list_addresses(path, names, text)]

    codes = {address[:200]: page.get(address).status_code for address in addresses}

    assert len(addresses) > 20
    assert {address: code for address, code in codes.items() if code >= 500} == {}


@pytest.mark.parametrize(
    "words", [("show",), ("why",), ("sessions", "go-to-step", "a", "--session-id")], ids=" ".join
)
def test_no_command_fails_inside_for_a_long_id(tmp_path: Path, words: tuple[str, ...]):
    done = run_deepwork(tmp_path, *words, "x" * 100_000)

    assert done.code == 1


def list_addresses(path: str, parameters: list[str], id: str) -> list[str]:
    """List the addresses of an endpoint with this id in each place that takes one."""
    in_query = [f"{path.replace('{id}', 'a')}?{name}={id}" for name in parameters if is_id_parameter(name)]
    return [path.replace("{id}", id), *in_query] if "{id}" in path else in_query


def list_id_parameters(spec: OperationSpec) -> list[str]:
    return [name for name in spec.parameter_names if is_id_parameter(name)]


def find_failure(app: Application, spec: OperationSpec, name: str, id: str) -> str | None:
    """Call the tool with this id and return the error that is not meant for callers, if there is one."""
    given = {**fill_required(spec.input_schema), name: [id] if name.endswith("_ids") else id}
    call = Call("human:ada", spec.name, account="human:ada")
    try:
        invoke(app.database, spec, given, call)
    except DeepworkError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return f"{spec.name}({name}): {error!r:.200}"
    return None


def fill_required(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make valid values for the parameters that must be given."""
    return {
        name: make_value(schema["properties"][name], schema.get("$defs", {}))
        for name in schema.get("required", ())
    }


def make_value(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return make_value(shared[schema["$ref"].rpartition("/")[2]], shared)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return make_value(schema["anyOf"][0], shared)
    kind = schema.get("type")
    if kind == "object":
        return fill_required({"$defs": shared, **schema})
    if kind == "array":
        return [make_value(schema["items"], shared)] if schema.get("minItems") else []
    return {"string": "a", "boolean": True}.get(str(kind), 1)
