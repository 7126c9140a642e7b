"""What judges said and cost: replies kept from run to run, anchors of a run, usage added up from its results."""

from __future__ import annotations

from sqlalchemy import Text, type_coerce
from sqlmodel import col, select

from loopeng.schema import AnchorReport, JudgeUsage
from loopeng.store.judge_tables import AnchorReportRow, JudgeReplyRow
from loopeng.store.room import Room
from loopeng.store.rows import insert_once, noun_of, values_of
from loopeng.store.tables import EvalResultRow

__all__ = ["JudgeRoom"]


class JudgeRoom(Room):
    """The part of the store that keeps what judges said. It is the cache of ``EvaluationContext``."""

    def judge_reply(self, key: str) -> str | None:
        """The reply kept under ``key``; waits for no writer."""
        with self._database.read() as session:
            row = session.get(JudgeReplyRow, key)
            return None if row is None else row.text

    def save_judge_reply(self, key: str, text: str) -> bool:
        """Keep a reply. False, and nothing changes, if there is one: the first stays."""
        values = {"key": key, "text": text.encode("utf-8", "replace").decode("utf-8"), "created_at": self._clock()}
        with self._database.write() as session:
            return insert_once(session, JudgeReplyRow, values)

    def save_anchor_report(self, run_id: str, report: AnchorReport) -> bool:
        """Keep how a run's judge did on its anchors. False, and nothing changes, if that is known already."""
        values = values_of(report) | {"run_id": run_id, "created_at": self._clock()}
        with self._database.write() as session:
            return insert_once(session, AnchorReportRow, values)

    def anchor_reports(self, run_id: str) -> list[AnchorReport]:
        """The anchors judged in a run, by evaluator."""
        query = select(AnchorReportRow).where(AnchorReportRow.run_id == run_id).order_by(col(AnchorReportRow.evaluator))
        with self._database.read() as session:
            return [noun_of(AnchorReport, row) for row in session.exec(query)]

    def judge_tokens(self, run_id: str) -> int:
        """Prompt and generated tokens of all judges of a run's attempts."""
        return sum(usage.total_tokens for usage in self.judge_usage(run_id).values())

    def judge_usage(self, run_id: str) -> dict[str, JudgeUsage]:
        """What judging a run's attempts cost, by evaluator, those that asked no model left out; anchors come extra."""
        query = (
            select(EvalResultRow.evaluator, EvalResultRow.metadata_)
            .where(EvalResultRow.run_id == run_id)
            .where(type_coerce(EvalResultRow.metadata_, Text).like('%"judge_usage"%'))
            .order_by(col(EvalResultRow.position))
        )
        usages: dict[str, JudgeUsage] = {}
        with self._database.read() as session:
            for evaluator, metadata in session.exec(query):
                usage = JudgeUsage.of(metadata)
                if usage is not None:
                    usages[evaluator] = usages.get(evaluator, JudgeUsage()) + usage
        return usages
