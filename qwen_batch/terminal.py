"""What is written for people: names and texts of others neither drive the terminal nor break a stream."""

from __future__ import annotations

import re
import sys

# Controls (the C1 ones too: some terminals obey them), separators, overrides of the direction, lone surrogates.
_ACTING = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = f"[{_ACTING}]"  # compiled at first use: what prints JSON needs neither
_IN_LINE = rf"[{_ACTING}\t\n]"


def visible(text: str) -> str:
    """The text with its lines and tabs, and whatever else would act on a terminal as an escape: `\\x1b`."""
    return re.sub(_IN_TEXT, _escape, text)


def one_line(text: str) -> str:
    """As `visible`, and line ends and tabs are escapes, too: for names of files and documents."""
    return re.sub(_IN_LINE, _escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")


def take_any_text() -> None:
    """Standard output writes `?` for what its encoding lacks (that of the POSIX locale: everything beyond ASCII)."""
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):  # a notebook's has not
        sys.stdout.reconfigure(errors="replace")
