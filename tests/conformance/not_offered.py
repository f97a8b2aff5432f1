"""What the conformance suite asks for and our protocol core does not offer, each with the reason.

A check is named `scenario:check`, as the suite names it. One that starts to pass must leave this list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotOffered:
    """Checks that fail for one reason, and the revisions in which they are made."""

    reason: str
    revisions: tuple[str, ...]
    checks: tuple[str, ...]


SESSIONS = ("2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
ASKS_NOTHING = "Our tools ask clients nothing: agents call them, often while no person is there to answer."
KEEPS_LISTS = "Lists never change while a server runs; events of deepwork have their own stream."

NOT_OFFERED = (
    NotOffered(
        ASKS_NOTHING,
        SESSIONS,
        ("tools-call-elicitation:tools-call-elicitation", "tools-call-sampling:tools-call-sampling"),
    ),
    NotOffered(
        ASKS_NOTHING,
        ("2025-11-25",),
        (
            "elicitation-sep1034-defaults:elicitation-sep1034-general",
            "elicitation-sep1330-enums:elicitation-sep1330-general",
        ),
    ),
    NotOffered(
        ASKS_NOTHING,
        STATELESS,
        (
            "input-required-result-basic-elicitation:sep-2322-elicitation-incomplete",
            "input-required-result-basic-list-roots:sep-2322-list-roots-incomplete",
            "input-required-result-basic-sampling:sep-2322-sampling-incomplete",
            "input-required-result-capability-check:sep-2322-respect-client-capabilities",
            "input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params",
            "input-required-result-missing-input-response:sep-2322-missing-response-rerequests",
            "input-required-result-multi-round:sep-2322-multi-round-r1",
            "input-required-result-multiple-input-requests:sep-2322-multiple-inputs-incomplete",
            "input-required-result-non-tool-request:sep-2322-non-tool-incomplete",
            "input-required-result-request-state:sep-2322-request-state-incomplete",
            "input-required-result-result-type:sep-2322-result-type-included",
            "input-required-result-tampered-state:sep-2322-reject-tampered-state",
            "tasks-mrtr-composition:sep-2663-mrtr-synchronous-before-task-creation",
            "tasks-mrtr-input:sep-2663-tasks-get-status-input-required",
            "tasks-mrtr-input:tasks-mrtr-partial-fulfillment",
            "tasks-mrtr-input:tasks-mrtr-tasks-update-resumes",
        ),
    ),
    NotOffered(
        "No tool of ours requires a capability of the client: without tasks, a call lasts until its answer.",
        STATELESS,
        (
            "server-stateless:sep-2575-missing-capability-http-400",
            "server-stateless:sep-2575-server-rejects-undeclared-capability",
            "tasks-required-task-error:sep-2663-server-returns-missing-capability-when-required",
        ),
    ),
    NotOffered(
        "We send no log messages to clients: they go to the server's own log.",
        SESSIONS,
        ("tools-call-with-logging:tools-call-with-logging",),
    ),
    NotOffered(
        KEEPS_LISTS,
        SESSIONS,
        ("resources-subscribe:resources-subscribe", "resources-unsubscribe:resources-unsubscribe"),
    ),
    NotOffered(
        KEEPS_LISTS,
        STATELESS,
        (
            "server-stateless:sep-2575-server-honors-notification-filter",
            "server-stateless:sep-2575-server-sends-prompts-list-changed-on-subscription",
            "server-stateless:sep-2575-server-sends-subscription-ack",
            "server-stateless:sep-2575-server-sends-tools-list-changed-on-subscription",
            "server-stateless:sep-2575-server-tags-subscription-id",
        ),
    ),
    NotOffered(
        "The suite skips this scenario itself. Clients poll tasks: we send no notifications about them.",
        STATELESS,
        ("tasks-status-notifications:(nothing)", "tasks-status-notifications:tasks-status-notifications"),
    ),
    NotOffered(
        "We keep no events for a client that lost its stream: it repeats the call under its idempotency key.",
        ("2025-11-25",),
        ("server-sse-polling:(nothing)",),
    ),
    NotOffered(
        "No tool of ours asks for its arguments in headers (`x-mcp-header`).",
        STATELESS,
        (
            "http-custom-header-server-validation:sep-2243-server-decode-base64",
            "http-custom-header-server-validation:sep-2243-server-no-xmcp-tool",
            "http-custom-header-server-validation:sep-2243-server-reject-invalid-param-chars",
            "http-custom-header-server-validation:sep-2243-server-reject-param-mismatch",
            "http-custom-header-server-validation:sep-2243-server-validate-param-match",
        ),
    ),
)
