"""Checks the parameters of each method against the protocol's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deepwork.kernel.protocol.messages import build_parameter_error
from deepwork.kernel.protocol.revisions import CAPABILITIES_KEY, CLIENT_KEY

Check = Callable[[Any], bool]

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def check_parameters(method: str, params: Mapping[str, Any], *, is_stateless: bool) -> None:
    """Raise unless the parameters fit the method."""
    is_valid = _is_meta(params.get("_meta"), is_stateless=is_stateless) and _fits(params, _SHAPES[method])
    if not is_valid:
        raise build_parameter_error()


def _fits(value: Any, shape: Mapping[str, Check]) -> bool:
    """Whether an object has the fields of a shape; a name ending in `?` may be absent or null."""
    if not isinstance(value, dict):
        return False
    for name, check in shape.items():
        field = value.get(name.rstrip("?"))
        if not (check(field) if field is not None else name.endswith("?")):
            return False
    return True


def _is_meta(meta: Any, *, is_stateless: bool) -> bool:
    if meta is None:
        return True
    return _fits(meta, _META) and (not is_stateless or _fits(meta, _ENVELOPE))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_token(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_text_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_client(value: Any) -> bool:
    return _fits(value, {"name": _is_text, "version": _is_text})


def _is_reference(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    return (kind == "ref/prompt" and _fits(value, {"name": _is_text})) or (
        kind == "ref/resource" and _fits(value, {"uri": _is_text})
    )


def _is_argument(value: Any) -> bool:
    return _fits(value, {"name": _is_text, "value": _is_text})


def _is_context(value: Any) -> bool:
    return _fits(value, {"arguments?": _is_text_by_name})


_META: Mapping[str, Check] = {"progressToken?": _is_token}
_ENVELOPE: Mapping[str, Check] = {CAPABILITIES_KEY: _is_object, f"{CLIENT_KEY}?": _is_client}
_PAGE: Mapping[str, Check] = {"cursor?": _is_text}
_TASK: Mapping[str, Check] = {"taskId": _is_text}
_SHAPES: Mapping[str, Mapping[str, Check]] = {
    "completion/complete": {"ref": _is_reference, "argument": _is_argument, "context?": _is_context},
    "initialize": {"protocolVersion": _is_text, "capabilities": _is_object, "clientInfo": _is_client},
    "logging/setLevel": {"level": _LEVELS.__contains__},
    "ping": {},
    "prompts/get": {"name": _is_text, "arguments?": _is_text_by_name},
    "prompts/list": _PAGE,
    "resources/list": _PAGE,
    "resources/read": {"uri": _is_text},
    "resources/templates/list": _PAGE,
    "server/discover": {},
    "tasks/cancel": _TASK,
    "tasks/get": _TASK,
    "tasks/update": {**_TASK, "inputResponses": _is_object},
    "tools/call": {"name": _is_text, "arguments?": _is_object},
    "tools/list": _PAGE,
}
