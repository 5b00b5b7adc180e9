"""Dates and times of spreadsheets: days since the end of 1899, shown by a format code (ECMA-376 part 1, 18.8.31)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from functools import lru_cache

MAX_DAYS = 2_958_466  # 31 December 9999
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PART = re.compile(
    r"""("[^"]*"?|\\.|_.|\*.|\[(?:h+|m+|s+)\]|\[[^\]]*\]|am/pm|a/p|y+|m+|d+|h+|s+|g+|e+|\.0+|.)""", re.I | re.S
)
_SILENT = re.compile(r'"[^"]*"?|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)


@lru_cache(maxsize=1000)
def is_date_code(code: str) -> bool:
    """Whether a format shows a date or a time."""
    first = _SILENT.sub("", code).split(";", 1)[0]
    return "general" not in first.lower() and _DATE.search(first) is not None


def format_date(value: float, code: str, from_1904: bool) -> str:
    """A day number as the code shows it; one that is no date as a number."""
    moment = _moment(value, from_1904)
    parts = _parts(code.split(";", 1)[0])
    elapsed = any(part[:2].lower() in ("[h", "[m", "[s") for part in parts)
    if moment is None or value < 0:
        return f"{value:g}"
    half_day = any("/" in part and len(part) > 1 and part[0] in "aA" for part in parts)
    shown = []
    for place, part in enumerate(parts):
        shown.append(_shown(part, moment, value if elapsed else None, _is_minute(parts, place), half_day))
    return " ".join("".join(shown).split())


def _moment(value: float, from_1904: bool) -> datetime.datetime | None:
    """Day 60 of 1900 is a 29 February that never was: days before it are one later."""
    if not 0 <= value < MAX_DAYS:
        return None
    days = value + 1462 if from_1904 else value
    start = datetime.datetime(1899, 12, 31) if days < 60 and not from_1904 else datetime.datetime(1899, 12, 30)
    try:
        return start + datetime.timedelta(milliseconds=round(days * 86_400_000))
    except OverflowError:
        return None


def day_number(text: str, from_1904: bool) -> float | None:
    """The day number of a date, or the part of a day of a time, in the form of ISO 8601; None: it is neither."""
    has_date = "-" in text[1:8]
    try:
        moment = datetime.datetime.fromisoformat(text.strip() if has_date else f"1899-12-30T{text.strip()}")
    except ValueError:
        return None
    days = (moment.replace(tzinfo=None) - datetime.datetime(1899, 12, 30)) / datetime.timedelta(days=1)
    if not has_date:
        return days
    return days - 1462 if from_1904 else days - (days < 61)


@lru_cache(maxsize=1000)
def _parts(section: str) -> tuple[str, ...]:
    return tuple(_PART.findall(section))


def _is_minute(parts: Sequence[str], place: int) -> bool:
    """m and mm are minutes after hours and before seconds, else months."""
    named = [(number, part.strip("[]").lower()[:1]) for number, part in enumerate(parts) if _is_unit(part)]
    index = next((index for index, (number, _) in enumerate(named) if number == place), None)
    if index is None:
        return False
    before = named[index - 1][1] if index else ""
    after = named[index + 1][1] if index + 1 < len(named) else ""
    return before == "h" or after == "s"


def _is_unit(part: str) -> bool:
    return part.strip("[]").lower()[:1] in tuple("ymdhs") and not part.startswith(("\\", '"', "_", "*", "[$"))


def _shown(part: str, moment: datetime.datetime, elapsed_days: float | None, is_minute: bool, half_day: bool) -> str:
    unit, size = part.lower()[:1], len(part)
    if part.startswith("["):
        return _elapsed(part, elapsed_days) if elapsed_days is not None and part[1:2] in "hmsHMS" else ""
    if '"' in part:
        return part.strip('"')
    if part.startswith(("\\", "_", "*")):
        return part[1:] if part.startswith("\\") else " " * part.startswith("_")
    if part.startswith(".0"):
        return f"{moment.microsecond / 1e6:.{size - 1}f}"[1:]
    if unit == "a" and size > 1:
        return ("AM" if moment.hour < 12 else "PM")[: size // 2 if size == 3 else 2]
    if unit == "m" and not is_minute and size > 2:
        name = MONTHS[moment.month - 1]
        return {3: name[:3], 5: name[:1]}.get(size, name)
    if unit == "d" and size > 2:
        name = DAYS[moment.weekday()]
        return name[:3] if size == 3 else name
    hour = (moment.hour % 12 or 12) if half_day else moment.hour
    units = {"d": moment.day, "h": hour, "s": moment.second, "m": moment.minute if is_minute else moment.month}
    if unit in ("y", "e"):
        return f"{moment.year:04}"[-2 if size == 2 and unit == "y" else -4 :]
    return f"{units[unit]:0{min(size, 2)}}" if unit in units else "" if unit in ("g", "@") else part


def _elapsed(part: str, days: float) -> str:
    """[h], [m] or [s]: all of them since day 0."""
    seconds = round(days * 86_400)
    per_unit = {"h": 3600, "m": 60, "s": 1}[part[1].lower()]
    return f"{seconds // per_unit:0{len(part) - 2}}"
