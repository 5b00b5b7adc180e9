"""Numbers as a spreadsheet shows them, by its format codes (ECMA-376 part 1, 18.8.30 and 18.8.31).

What depends on the reader's settings and not on the file is written in one way: decimal points, commas between
thousands, English names of months, and the system's short date as year-month-day.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from qwen_batch.read.office.sheet_dates import format_date, is_date_code

BUILT_IN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm",
    21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
    **dict.fromkeys((27, 28, 29, 30, 31, 34, 35, 36, 50, 51, 52, 53, 54, 57, 58), "yyyy-mm-dd"),  # of East Asia
}  # fmt: skip
GENERAL = "general"
MAX_PLAIN = 1e15  # larger numbers have no decimals
MAX_DIGITS = 17  # of whole numbers; larger ones are shown with an exponent
_PART = re.compile(r"""("[^"]*"?|\\.|_.|\*.|\[[^\]]*\]|e[+-]0+|general|.)""", re.IGNORECASE | re.DOTALL)
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[0-9a-f]+)?\]", re.IGNORECASE)
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?[\d.]+)\]")
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}


def format_value(value: float, code: str, from_1904: bool = False) -> str:
    """A number as a cell with this format shows it; a date is one where the code asks for it."""
    if is_date_code(code):
        return format_date(value, code, from_1904)
    sections = _sections(code)
    if len(sections) == 1 or _CONDITION.search(code):
        shown = _format_section(abs(value), next((each for each in sections if _fits(value, each)), sections[-1]))
        return f"-{shown}" if value < 0 and any(char in "123456789" for char in shown) else shown
    if value == 0 and len(sections) > 2:
        return _format_section(0.0, sections[2])
    return _format_section(abs(value), sections[value < 0])


def format_general(value: float) -> str:
    """As many digits as are exact (15), without an exponent where there is room; all of whole numbers, for an account
    number that lost its digits, as programs show it, is none."""
    if value == 0:
        return "0"
    if MAX_PLAIN <= abs(value) < 10**MAX_DIGITS:
        return f"{Decimal(repr(value)):.0f}"
    if not 1e-9 <= abs(value) < MAX_PLAIN:
        return f"{value:.10G}"
    return f"{Decimal(f'{value:.15g}'):f}"


def _fits(value: float, section: Sequence[str]) -> bool:
    """Whether a section's condition holds; one without a condition takes what is left."""
    found = next(filter(None, map(_CONDITION.fullmatch, section)), None)
    try:
        return found is None or _HOLDS[found[1]](value, float(found[2]))
    except ValueError:
        return True


@lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[tuple[str, ...], ...]:
    """The parts of each section of a code: positive; negative; zero; text."""
    sections: list[list[str]] = [[]]
    for part in _PART.findall(code):
        if part == ";":
            sections.append([])
        else:
            sections[-1].append(part)
    return tuple(map(tuple, sections))


def _format_section(value: float, parts: Sequence[str]) -> str:
    if any(part.lower() == GENERAL or part == "/" for part in parts) or not parts:
        return _around(format_general(value), parts)
    value *= 100 ** parts.count("%")
    if exponents := [place for place, part in enumerate(parts) if part[:1] in "eE" and len(part) > 2]:
        return _with_exponent(value, parts, exponents[0])
    if value >= MAX_PLAIN:
        return format_general(value)
    return "".join(_place_digits(value, parts)).strip()


def _around(number: str, parts: Sequence[str]) -> str:
    """A number where `General` or a fraction, which says no more than its decimals, stands."""
    place = next((place for place, part in enumerate(parts) if part.lower() == GENERAL or part in "#?0"), 0)
    shown = ["" if part in "#?/0" else _literal(part) for part in parts]
    return "".join([*shown[:place], number, *shown[place:]]).strip()


def _with_exponent(value: float, parts: Sequence[str], place: int) -> str:
    num_decimals = sum(part in "0#?" for part in parts[parts.index(".") : place]) if "." in parts else 0
    return f"{value:.{num_decimals}E}"


def _place_digits(value: float, parts: Sequence[str]) -> list[str]:
    """Each part of a section with its digits: what stands between placeholders stays there."""
    point = parts.index(".") if "." in parts else len(parts)
    whole = [place for place, part in enumerate(parts[:point]) if part in "0#?"]
    decimals = [place for place in range(point + 1, len(parts)) if parts[place] in "0#?"]
    last = max(whole + decimals, default=-1)
    scale = 0
    while parts[last + 1 + scale : last + 2 + scale] == (",",) and last >= 0:
        scale += 1
    digits, _, fraction = _rounded(value / 1000**scale, len(decimals)).partition(".")
    grouped = any(parts[place] == "," for place in range(whole[0], whole[-1])) if whole else False
    shown = [_literal(part) for part in parts]
    _fill_whole(shown, parts, whole, digits.lstrip("0"), grouped)
    kept = fraction.rstrip("0")
    for number, place in enumerate(decimals):
        shown[place] = fraction[number] if number < len(kept) or parts[place] == "0" else ""
    if decimals:
        shown[point] = "." if any(shown[place] for place in decimals) else ""
    return shown


def _fill_whole(shown: list[str], parts: Sequence[str], places: Sequence[int], digits: str, grouped: bool) -> None:
    """Digits from the right; the first place takes all that are left."""
    num_placed = 0
    for place in reversed(places):
        taken = digits if place == places[0] else digits[-1:]
        digits = "" if place == places[0] else digits[:-1]
        taken = taken or ("0" if parts[place] == "0" else "")
        text = ""
        for digit in reversed(taken):
            text = digit + ("," if grouped and num_placed and num_placed % 3 == 0 else "") + text
            num_placed += 1
        shown[place] = text


def _rounded(value: float, num_decimals: int) -> str:
    """Halves away from zero, as spreadsheets do it."""
    exact = Decimal(f"{value:.15g}")
    return f"{exact.quantize(Decimal(1).scaleb(-num_decimals), ROUND_HALF_UP):f}"


def _literal(part: str) -> str:
    """What a part shows by itself."""
    if part.startswith('"'):
        return part.strip('"')
    if part.startswith("\\"):
        return part[1:]
    if part.startswith("_"):
        return " "
    if currency := _CURRENCY.fullmatch(part):
        return currency[1]
    silent = part.startswith(("[", "*")) or part.lower() == GENERAL or part in "0#?,."
    return "" if silent or part == "@" else part
