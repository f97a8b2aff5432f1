"""What decisions of people about landings lead to."""

from __future__ import annotations

from collections.abc import Callable

from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.landing.rules import describe_move
from deepwork.delivery.landing.service import LandingService
from deepwork.gates.approvals.models import Approval, DecisionEffect
from deepwork.gates.approvals.service import notify_of_decision
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import DeepworkError


class LandingDecisions:
    """Lands what a person approved, and sends back what they refused."""

    def __init__(self, get_service: Callable[[], LandingService]) -> None:
        self._get_service = get_service

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock nothing: a landing takes its lease first, and no decision waits for that."""

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Notify the agent whose work it is."""
        notify_of_decision(tx, approval, "")
        return None

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Go on with the landing, if nothing changed since the person looked at it."""
        try:
            landing = self._get_service().resume(approval.subject_id)
        except DeepworkError as error:
            return DecisionEffect(f"It has not landed yet: {error.message}", is_carried_out=False)
        if landing.status is LandingStatus.LANDED:
            return DecisionEffect(describe_move(landing))
        text = f"The landing is {landing.status}. {landing.reason or ''}".strip()
        return DecisionEffect(text, is_carried_out=landing.status.is_pending or not approval.was_given)
