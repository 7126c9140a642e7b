"""Accounts, transfers between them, and statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


class LedgerError(Exception):
    """A transfer that cannot be made."""


@dataclass(frozen=True)
class Entry:
    """One movement on one account."""

    when: datetime
    amount: int
    text: str


@dataclass
class Account:
    """Money of one owner, in cents."""

    owner: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def balance(self) -> int:
        return sum(entry.amount for entry in self.entries)

    def statement(self) -> str:
        lines = [f"Statement for {self.owner}"]
        total = 0
        for entry in self.entries:
            total += entry.amount
            lines.append(f"{entry.when:%Y-%m-%d}  {entry.text:<24} {entry.amount / 100:>10.2f} {total / 100:>10.2f}")
        return "\n".join(lines)


class Ledger:
    """All accounts by owner."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def open_account(self, owner: str) -> Account:
        if owner in self.accounts:
            raise LedgerError(f"{owner} has an account")
        account = Account(owner)
        self.accounts[owner] = account
        return account

    def deposit(self, owner: str, amount: int, when: datetime) -> None:
        self._account(owner).entries.append(Entry(when, amount, "deposit"))

    def transfer(self, sender: str, receiver: str, amount: int, when: datetime) -> None:
        source, target = self._account(sender), self._account(receiver)
        if source.balance < amount:
            raise LedgerError("not enough money")
        source.entries.append(Entry(when, -amount, f"to {receiver}"))
        target.entries.append(Entry(when, amount, f"from {sender}"))

    def _account(self, owner: str) -> Account:
        if owner not in self.accounts:
            raise LedgerError(f"{owner} has no account")
        return self.accounts[owner]
