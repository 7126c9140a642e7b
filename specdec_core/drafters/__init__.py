"""Where drafts come from. See ``base`` for the protocol and ``registry`` for the names."""

from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.drafters.memory import DraftMemory
from specdec_core.drafters.registry import DRAFTERS, make_drafter

__all__ = ["DRAFTERS", "DraftContext", "DraftMemory", "Drafter", "make_drafter"]
