"""Storage of proofs and of what they were used for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from deepwork.gates.checks.models import PROVING_VERDICTS, CheckVerdict, Proof, ProofKey, ProofSubject
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.seals import is_sealed, save_seal
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotAllowed


class ProofStore:
    """Reads and writes proofs."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, proof: Proof) -> None:
        """Insert a new proof."""
        row = {name: getattr(proof, name) for name in _NAMES}
        self._tx.insert("proofs", row | {"is_clean": int(proof.is_clean)})
        save_seal(self._tx, "proofs", proof.id)

    def find(self, id: str) -> Proof | None:
        """Return the proof with this id."""
        row = self._tx.fetch_one(f"SELECT {_COLUMNS} FROM proofs WHERE id = :id", id=id)
        return _from_row(row) if row else None

    def find_proving(self, key: ProofKey) -> Proof | None:
        """Return the newest proof that counts as passed, and that was not forged.

        One that was made while guarded files differed from the base is good only for the subject that it was
        made for, and only for exactly these differences.
        """
        verdicts = [*PROVING_VERDICTS, *([CheckVerdict.GUARDED] if key.guarded_digest else [])]
        found = (each for each in self._read(key) if each.verdict in verdicts or each.waived_by is not None)
        return next(filter(self._is_sealed, found), None)

    def list_of(self, key: ProofKey) -> list[Proof]:
        """List all proofs with this key that were not forged, whatever they say, the newest first."""
        return list(filter(self._is_sealed, self._read(key)))

    def _is_sealed(self, proof: Proof) -> bool:
        return is_sealed(self._tx, "proofs", proof.id)

    def _read(self, key: ProofKey) -> list[Proof]:
        own = "guarded_digest = :guarded_digest AND asked_by = :asked_by"
        landing = "AND substr(asked_by, 1, 8) = 'landing:'" if key.is_of_landing else ""
        sql = f"""
            SELECT {_COLUMNS} FROM proofs
             WHERE inputs_digest = :inputs_digest AND definition_digest = :definition_digest
               AND project = :project AND host = :host
               AND {own if key.guarded_digest else "guarded_digest IS NULL"} {landing}
             ORDER BY created_at DESC, id DESC LIMIT 100
        """
        rows = self._tx.fetch_all(
            sql, **{name: each for name, each in asdict(key).items() if f":{name}" in sql}
        )
        return [_from_row(row) for row in rows]

    def pass_guarded(self, ids: Iterable[str]) -> None:
        """Record that a person approved what decided about these proofs; a forged one stays forged."""
        for id in ids:
            if not is_sealed(self._tx, "proofs", id):
                continue
            self._tx.update("proofs", id, {"verdict": CheckVerdict.PASSED})
            save_seal(self._tx, "proofs", id)

    def count_red(self, subject: ProofSubject, check: str) -> int:
        """Count the runs of a check for this subject that did not pass."""
        sql = """
            SELECT count(*) FROM proofs
             WHERE asked_by = :subject AND check_name = :check AND verdict NOT IN :others
        """
        others = [*PROVING_VERDICTS, CheckVerdict.GUARDED]
        count: int = self._tx.fetch_value(sql, subject=str(subject), check=check, others=others)
        return count

    def list_made_for(self, subject: ProofSubject) -> dict[str, Proof]:
        """Map the checks that ran for this subject to their newest proofs."""
        columns = ", ".join(_NAMES)
        sql = f"SELECT {columns} FROM proofs WHERE asked_by = :subject ORDER BY created_at, id"
        rows = self._tx.fetch_all(sql, subject=str(subject))
        return {proof.check_name: proof for proof in map(_from_row, rows)}

    def list_red_of(self, subject: ProofSubject, commit: str) -> list[Proof]:
        """List what did not pass of what ran for this subject at a commit, the newest of each check."""
        columns = ", ".join(_NAMES)
        sql = f"""
            SELECT {columns} FROM proofs WHERE asked_by = :subject AND head = :commit ORDER BY created_at, id
        """
        rows = self._tx.fetch_all(sql, subject=str(subject), commit=commit)
        newest = {proof.check_name: proof for proof in map(_from_row, rows)}
        return [proof for proof in newest.values() if not proof.is_green]

    def list_newest(
        self,
        limit: int,
        check: str | None = None,
        verdict: CheckVerdict | None = None,
        used_by: str | None = None,
        after: tuple[int, str] | None = None,
    ) -> tuple[list[Proof], int]:
        """List the newest proofs, after this time and id, and how many match in all.

        `verdict` is the one that is shown; `used_by` is the id of what counted as done with them.
        """
        conditions = {
            "check_name = :check": check,
            f"{_SHOWN_VERDICT} = :verdict": verdict,
            "id IN (SELECT proof_id FROM proof_uses WHERE subject_id = :used_by)": used_by,
        }
        values = {"check": check, "verdict": verdict, "used_by": used_by}
        rows, total = self._tx.list_newest("proofs", _COLUMNS, conditions, after, limit, **values)
        return [_from_row(row) for row in rows], total

    def list_used_by(self, subject: ProofSubject) -> list[Proof]:
        """List the proofs with which this subject counted as done."""
        return self.find_used_by(subject.kind, [subject.id]).get(subject.id, [])

    def find_used_by(self, kind: str, ids: Sequence[str]) -> dict[str, list[Proof]]:
        """Map each of these subjects that counted as done with proofs to them."""
        columns = ", ".join(f"proofs.{name}" for name in _NAMES)
        sql = f"""
            SELECT subject_id, {columns} FROM proof_uses JOIN proofs ON proofs.id = proof_uses.proof_id
             WHERE subject_kind = :kind AND subject_id IN :ids ORDER BY check_name, proofs.created_at
        """
        found: dict[str, list[Proof]] = {}
        for row in self._tx.fetch_all(sql, kind=kind, ids=list(ids)) if ids else []:
            found.setdefault(row.pop("subject_id"), []).append(_from_row(row))
        return found

    def list_uses(self, proof_id: str) -> list[ProofSubject]:
        """List what counted as done with this proof."""
        sql = """
            SELECT subject_kind, subject_id FROM proof_uses WHERE proof_id = :id
             ORDER BY used_at, subject_kind, subject_id
        """
        rows = self._tx.fetch_all(sql, id=proof_id)
        return [ProofSubject(row["subject_kind"], row["subject_id"]) for row in rows]

    def add_uses(self, subject: ProofSubject, proof_ids: Iterable[str]) -> None:
        """Record that the subject counts as done with these proofs."""
        sql = """
            INSERT INTO proof_uses (subject_kind, subject_id, proof_id, used_at)
            VALUES (:kind, :id, :proof_id, :now) ON CONFLICT DO NOTHING
        """
        about = {"kind": subject.kind, "id": subject.id, "now": self._tx.now}
        rows: Sequence[Row] = [{**about, "proof_id": proof_id} for proof_id in dict.fromkeys(proof_ids)]
        self._tx.execute_many(sql, rows)

    def waive(self, id: str, by: str, reason: str) -> None:
        """Record that a person lets this proof count as passed; raises NotAllowed if it was forged."""
        if not is_sealed(self._tx, "proofs", id):
            raise NotAllowed(
                f"Proof {id} was changed in the store, or is older than its seal: it cannot be waived.",
                suggestion="Let the check run again, then waive the new proof.",
            )
        self._tx.update("proofs", id, {"waived_by": by, "waived_at": self._tx.now, "waive_reason": reason})
        save_seal(self._tx, "proofs", id)


_NAMES = tuple(name for name in Proof.__dataclass_fields__ if name not in ("guarded", "proved"))
_COLUMNS = ", ".join(_NAMES)
_SHOWN_VERDICT = f"CASE WHEN waived_by IS NULL THEN verdict ELSE '{CheckVerdict.WAIVED}' END"


@row_parser
def _from_row(row: Row) -> Proof:
    return Proof(**(row | {"verdict": CheckVerdict(row["verdict"]), "is_clean": bool(row["is_clean"])}))
