"""Numbers of list items and headings, as word processors write them."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
MAX_ROMAN = 4000


def as_mark(number: int, style: str) -> str:
    """A number in one of OpenDocument's styles: 1, a, A, i or I; '' where it has none."""
    if not style:
        return ""
    if style in "aA":
        letters = chr(97 + (number - 1) % 26) * ((number - 1) // 26 + 1) if number > 0 else "0"
        return letters.upper() if style == "A" else letters
    if style in "iI" and 0 < number < MAX_ROMAN:
        roman = _roman(number)
        return roman.upper() if style == "I" else roman
    return str(number)


def _roman(number: int) -> str:
    parts = []
    for value, letters in _ROMAN:
        parts.append(letters * (number // value))
        number %= value
    return "".join(parts)


_OF_WORD = {"lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I"}
_DIGITS = "〇一二三四五六七八九"
_CHINESE = ("chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting", "ideographDigital")
_CYCLES = {
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "russianUpper": "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ",
    "ganada": "가나다라마바사아자차카타파하",
    "koreanCounting": "일이삼사오육칠팔구십",
    "aiueo": "ｱｲｳｴｵｶｷｸｹｺｻｼｽｾｿﾀﾁﾂﾃﾄ",
    "aiueoFullWidth": "アイウエオカキクケコサシスセソタチツテト",
    "iroha": "ｲﾛﾊﾆﾎﾍﾄﾁﾘﾇﾙｦﾜｶﾖﾀﾚｿﾂﾈ",
    "irohaFullWidth": "イロハニホヘトチリヌルヲワカヨタレソツネ",
}


def word_mark(number: int, style: str) -> str:
    """A number in one of Word's formats (ECMA-376 part 1, 17.18.59); Arabic where we do not know it."""
    if style in ("none", "bullet"):
        return ""
    if style in _OF_WORD:
        return as_mark(number, _OF_WORD[style])
    if style == "decimalZero":
        return f"{number:02}"
    if style == "ordinal":
        return f"{number}{_ordinal_end(number)}"
    if style.startswith("decimalEnclosedCircle") and 1 <= number <= 20:
        return chr(0x2460 + number - 1)
    if style in _CHINESE:
        return _chinese(number)
    if style in _CYCLES and 1 <= number <= len(_CYCLES[style]):
        return _CYCLES[style][number - 1]
    return str(number)


def _ordinal_end(number: int) -> str:
    return "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _chinese(number: int) -> str:
    """Up to 99 as they are counted, larger ones by their digits."""
    tens, ones = divmod(number, 10)
    if number < 10 or number > 99:
        return "".join(_DIGITS[int(digit)] for digit in str(number))
    return f"{_DIGITS[tens] if tens > 1 else ''}十{_DIGITS[ones] if ones else ''}"
