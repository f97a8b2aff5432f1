from __future__ import annotations

import json
from typing import Any

import pytest

from deepwork.kernel.protocol.messages import MAX_FRAME, InvalidFrame, parse_frame


def build_call(arguments: str, id: str = "7") -> bytes:
    return (
        f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}\n'
    ).encode()


def reject(line: bytes) -> Any:
    with pytest.raises(InvalidFrame) as refused:
        parse_frame(line)
    assert refused.value.answer.endswith(b"\n")
    return json.loads(refused.value.answer)


@pytest.mark.parametrize(
    "line",
    [build_call("{}"), build_call("null"), build_call('{"a":"\\ud83d\\ude00"}'), build_call('{"a":[1,2]}')],
)
def test_what_can_be_read_is_parsed(line: bytes):
    assert parse_frame(line) == json.loads(line)


@pytest.mark.parametrize(
    "arguments", ['{"a":"\\ud800"}', '{"a":NaN}', '{"a":-Infinity}', "[1]", '"x"', '{"a":']
)
def test_an_unreadable_call_gets_the_usual_tool_error(arguments: str):
    answer = reject(build_call(arguments))

    assert answer["id"] == 7
    assert answer["result"]["isError"] is True
    error = json.loads(answer["result"]["content"][0]["text"])
    assert error["code"] == "INVALID_INPUT"
    assert set(error) == {"code", "message", "recoverable", "suggestion"}


def test_an_oversized_call_is_answered_with_its_id():
    answer = reject(build_call('{"a":"' + "x" * MAX_FRAME + '"}', id='"abc"'))

    assert answer["id"] == "abc"
    assert json.loads(answer["result"]["content"][0]["text"])["code"] == "TOO_LARGE"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage\n", -32700),
        (b"[]\n", -32600),
        (b'{"id":1}\n', -32600),
        (b"\xff\xfe\n", -32700),
        (b"5\n", -32600),
    ],
)
def test_input_that_is_not_a_request_gets_a_protocol_error(line: bytes, code: int):
    answer = reject(line)

    assert answer["error"]["code"] == code
    assert answer["error"]["data"]["code"] == "INVALID_INPUT"


def test_deep_nesting_is_refused():
    assert reject(build_call('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"))["id"] == 7


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":2}\n',
        b'{"jsonrpc":"2.0","id":2,"method":5}\n',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":[]}\n',
        b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":7}}\n',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","_meta":[]}}\n',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":false}}\n',
    ],
)
def test_an_incomplete_request_gets_an_error(line: bytes):
    answer = reject(line)

    assert answer["id"] in (2, None)
    assert "error" in answer or answer["result"]["isError"]


def test_an_id_in_the_arguments_is_not_taken_as_the_request_id():
    broken = b'{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"id":"ag_x"'

    assert reject(broken)["id"] is None


def test_notifications_and_answers_are_parsed():
    assert "id" not in parse_frame(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    assert parse_frame(b'{"jsonrpc":"2.0","id":3,"result":{}}\n')["result"] == {}
