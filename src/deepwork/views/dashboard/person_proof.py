"""The endpoint that says how a person proves that a decision is theirs."""

from __future__ import annotations

from importlib.util import find_spec

from deepwork.gates.approvals.credentials import Credential
from deepwork.gates.approvals.enrollment import create_registration_challenge
from deepwork.gates.approvals.person_proof import read_proof_state
from deepwork.kernel.timestamps import format_optional_timestamp, format_timestamp
from deepwork.views.dashboard.endpoints import Endpoint, NoParameters, ReadContext, RestAnswer


class Enrolled(RestAnswer):
    """A passphrase or a passkey, without its secrets."""

    id: str
    method: str
    name: str
    created_at: str
    locked_until: str | None = None
    """Until when nobody can try the passphrase again."""
    credential_id: str | None = None
    """The id of a passkey for browsers."""
    relying_party: str | None = None
    """The host name that a passkey works with."""


class PersonProof(RestAnswer):
    """Which proof decisions need, what the user's settings say, and what is enrolled."""

    required: str
    settings: str
    credentials: list[Enrolled]
    can_verify_passkeys: bool
    """Whether the package that passkeys need is installed."""
    challenge: str
    """What a new passkey has to answer, for ten minutes."""


def read_person_proof(context: ReadContext, _: NoParameters) -> PersonProof:
    state = read_proof_state(context.tx)
    return PersonProof(
        required=state.required.value,
        settings=state.wanted.value,
        credentials=[_describe(each, context.now) for each in state.credentials],
        can_verify_passkeys=find_spec("webauthn") is not None,
        challenge=create_registration_challenge(context.tx),
    )


def _describe(credential: Credential, now: int) -> Enrolled:
    return Enrolled(
        id=credential.id,
        method=credential.method.value,
        name=credential.name,
        created_at=format_timestamp(credential.created_at),
        locked_until=format_optional_timestamp(
            credential.locked_until if credential.is_locked(now) else None
        ),
        credential_id=credential.data.get("credential_id"),
        relying_party=credential.data.get("relying_party"),
    )


ENDPOINTS = (
    Endpoint(
        "/api/v1/person-proof",
        "How you prove that a decision is a person's.",
        NoParameters,
        PersonProof,
        read_person_proof,
    ),
)
