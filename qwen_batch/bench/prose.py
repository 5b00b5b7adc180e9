"""Text without end that reads like contracts and tickets, drawn from a few words: the same seed, the same text.

Real sentences and not random token ids: a model is sure of its next token there, so that the agreement of two engines
says something about their numbers and not about ties.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_SUBJECTS = (
    "supplier", "customer", "agent", "tenant", "licensee", "court", "manager", "engineer", "auditor", "insurer",
    "printer", "gateway", "invoice", "delivery", "account", "warehouse", "meter", "report", "agreement", "schedule",
)  # fmt: skip
_ADJECTIVES = (
    "first", "written", "monthly", "late", "damaged", "confidential", "new", "urgent", "partial", "annual", "final",
    "reasonable", "missing", "technical", "agreed", "open",
)  # fmt: skip
_VERBS = (
    "pays", "returns", "confirms", "refuses", "replaces", "stores", "reports", "accepts", "delays", "repairs",
    "terminates", "renews", "checks", "loses", "delivers", "transfers",
)  # fmt: skip
_OBJECTS = (
    "price", "penalty", "notice", "warranty", "password", "shipment", "licence", "drawing", "error message", "refund",
    "deposit", "clause", "backup", "cable", "signature", "claim", "ticket", "update", "certificate", "paper tray",
)  # fmt: skip
_ENDS = (
    "within {} days after the date of the invoice", "before the end of week {}", "under section {} of this agreement",
    "for an amount of {} euro", "because it failed {} times this morning", "unless both parties agree in writing",
    "as set out in annex {}", "and the order number {} is quoted in every letter", "and nobody answers the telephone",
)  # fmt: skip


def sentence(draw: random.Random) -> str:
    """One sentence."""
    end = draw.choice(_ENDS).format(draw.randint(2, 990))
    adjective, verb = draw.choice(_ADJECTIVES), draw.choice(_VERBS)
    return f"The {draw.choice(_SUBJECTS)} {verb} the {adjective} {draw.choice(_OBJECTS)} {end}."


def token_ids(encode: Callable[[str], Sequence[int]], num_tokens: int, draw: random.Random, begin: str) -> list[int]:
    """Exactly `num_tokens` ids of `begin` and sentences after it, in paragraphs."""
    parts, ids = [begin], list(encode(begin))
    while len(ids) < num_tokens:
        for _ in range(max(4, (num_tokens - len(ids)) // 8)):  # a sentence is 8 tokens or more in any vocabulary
            parts.append(sentence(draw) + draw.choice((" ", " ", " ", "\n\n")))
        ids = list(encode("".join(parts)))
    return ids[:num_tokens]
