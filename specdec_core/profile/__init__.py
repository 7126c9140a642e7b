"""What passes cost on this machine: bytes and FLOP counted, times measured, and what follows for drafts."""

__all__: list[str] = []
