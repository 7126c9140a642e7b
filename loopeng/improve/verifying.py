"""Whether what the database says of a prompt can be derived again: texts from rules, heads from decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from loopeng.errors import LoopError, NotFoundError
from loopeng.improve.rules import apply_operations
from loopeng.prompts import names_text, text_hash
from loopeng.schema import Decision, PromptVersion, Proposal, Revision
from loopeng.store import LoopStore

__all__ = ["Discrepancy", "verify_prompt"]

_BY_PROPOSAL = ("proposal", "rollback")


@dataclass(frozen=True)
class Discrepancy:
    """Something that is not as it must be. ``where``: a version, a proposal with its revision, a decision, the prompt.

    Whoever meets one knows that the file was changed from outside, or that there is a mistake in loopeng.
    """

    where: str
    what: str


def verify_prompt(store: LoopStore, prompt_name: str) -> list[Discrepancy]:
    """Everything that is wrong with a prompt's versions, revisions and decisions; nothing in a good database.

    Raises NotFoundError for an unknown prompt. A row that cannot even be read is a discrepancy too.
    """
    try:
        versions = store.stored_versions(prompt_name)
        if not versions:
            store.head(prompt_name)  # raises NotFoundError: names those there are
        proposals = store.proposals(prompt_name=prompt_name)
        revisions = {each.id: store.revisions(each.id) for each in proposals}
        decisions = store.decisions(prompt_name=prompt_name)
    except NotFoundError:
        raise
    except LoopError as error:
        return [Discrepancy(prompt_name, str(error))]
    audit = _Audit(prompt_name, versions, proposals, revisions, decisions)
    return [*audit.versions_found(), *audit.revisions_found(), *audit.decisions_found(), *audit.head_found(store)]


@dataclass(frozen=True)
class _Audit:
    prompt_name: str
    versions: list[PromptVersion]
    proposals: list[Proposal]
    revisions: dict[str, list[Revision]]
    decisions: list[Decision]

    def versions_found(self) -> Iterator[Discrepancy]:
        by_id = {version.id: version for version in self.versions}
        for expected, version in enumerate(self.versions, 1):
            where = f"{version.id} (version {version.number})"
            if version.number != expected:
                yield Discrepancy(where, f"version {expected} is missing before it")
                return
            yield from _same_hash(where, version.text_hash, text_hash(version.template, version.rules))
            parent = by_id.get(version.parent_id or "")
            if version.parent_id is None and version.number > 1:
                yield Discrepancy(where, "has no parent, but is not the first")
            elif version.parent_id is not None and (parent is None or parent.number >= version.number):
                yield Discrepancy(where, f"its parent {version.parent_id} is no earlier version of this prompt")
            if version.source in _BY_PROPOSAL:
                yield from self._commit_found(where, version)

    def _commit_found(self, where: str, version: PromptVersion) -> Iterator[Discrepancy]:
        """A version that came by a proposal is what somebody approved."""
        proposal = next((each for each in self.proposals if each.id == version.proposal_id), None)
        revision = self._revision(version.proposal_id, version.revision)
        if proposal is None or revision is None:
            yield Discrepancy(where, f"there is no proposal {version.proposal_id} revision {version.revision}")
            return
        if (version.text_hash, version.rules) != (revision.text_hash, revision.rules):
            yield Discrepancy(where, f"is not the text of {revision.proposal_id} revision {revision.revision}")
        if version.parent_id != proposal.base_version_id or proposal.state != "committed":
            base = f"{proposal.state}, made for {proposal.base_version_id}"
            yield Discrepancy(where, f"{proposal.id} is {base}, the parent is {version.parent_id}")
        if not any(
            decision.action == "approve" and names_text(decision.seen_hash, version.text_hash)
            for decision in self.decisions
            if (decision.proposal_id, decision.revision) == (proposal.id, revision.revision)
        ):
            yield Discrepancy(where, f"nobody approved the text {version.text_hash[:8]} of {proposal.id}")

    def revisions_found(self) -> Iterator[Discrepancy]:
        for proposal in self.proposals:
            for expected, revision in enumerate(self.revisions[proposal.id], 1):
                where = f"{proposal.id} revision {revision.revision}"
                if revision.revision != expected:
                    yield Discrepancy(where, f"revision {expected} is missing before it")
                    break
                if not any(_derives(base, revision) for base in self._bases(proposal, revision)):
                    yield Discrepancy(where, "its operations do not lead to its rules, or those not to its text hash")
            committed = any(version.proposal_id == proposal.id for version in self.versions)
            if proposal.state == "committed" and not committed:
                yield Discrepancy(proposal.id, "is committed, but no version came from it")

    def _bases(self, proposal: Proposal, revision: Revision) -> list[PromptVersion]:
        """What a revision was made for: an earlier one may have had another base, before it was rebased."""
        if revision.revision == proposal.revision:
            return [version for version in self.versions if version.id == proposal.base_version_id]
        return self.versions

    def decisions_found(self) -> Iterator[Discrepancy]:
        by_id = {version.id: version for version in self.versions}
        for decision in self.decisions:
            if decision.proposal_id is not None and decision.revision is not None:
                revision = self._revision(decision.proposal_id, decision.revision)
                if revision is None:
                    missing = f"{decision.proposal_id} revision {decision.revision}"
                    yield Discrepancy(decision.id, f"is about {missing}, which is not there")
                elif not names_text(decision.seen_hash, revision.text_hash):
                    named = f"names the text {decision.seen_hash[:8]}"
                    yield Discrepancy(decision.id, f"{named}, the revision has {revision.text_hash[:8]}")
            elif decision.action == "rollback":
                left = by_id.get(decision.evidence.get("from_version_id", ""))
                if decision.version_id not in by_id or left is None:
                    yield Discrepancy(decision.id, "leads from or to a version that is not there")
                elif not names_text(decision.seen_hash, left.text_hash):
                    named = f"names the text {decision.seen_hash[:8]}"
                    yield Discrepancy(decision.id, f"{named}, {left.id} has {left.text_hash[:8]}")

    def head_found(self, store: LoopStore) -> Iterator[Discrepancy]:
        """The head is where the last of the commits, file edits and rollbacks left it."""
        try:
            head = store.head(self.prompt_name)
        except LoopError as error:
            yield Discrepancy(self.prompt_name, f"its head is missing: {error}")
            return
        moves: list[tuple[datetime, str | None]] = [(version.created_at, version.id) for version in self.versions]
        moves += [(each.created_at, each.version_id) for each in self.decisions if each.action == "rollback"]
        last = max(when for when, _ in moves)
        if head.id not in {to for when, to in moves if when == last}:
            yield Discrepancy(self.prompt_name, f"nothing says why the head is {head.id}")

    def _revision(self, proposal_id: str | None, number: int | None) -> Revision | None:
        return next((each for each in self.revisions.get(proposal_id or "", ()) if each.revision == number), None)


def _same_hash(where: str, kept: str, derived: str) -> Iterator[Discrepancy]:
    if kept != derived:
        yield Discrepancy(where, f"has the text hash {kept[:8]}, but its text gives {derived[:8]}")


def _derives(base: PromptVersion, revision: Revision) -> bool:
    try:
        rules = apply_operations(base.rules, revision.operations)
    except NotFoundError:
        return False
    return rules == revision.rules and text_hash(base.template, rules) == revision.text_hash
