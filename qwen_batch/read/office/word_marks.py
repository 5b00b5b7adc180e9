"""What Word shows as characters without storing them as text: symbols, equations, boxes that are ticked, readings."""

from __future__ import annotations

from typing import Any

from qwen_batch.read.office.symbols import SYMBOL, WINGDINGS
from qwen_batch.read.office.word_names import MATH_NS, WORD_NS, is_on, value_of

MAX_DEPTH = 100  # of an equation's parts in each other
_SCRIPTS = {"sSup": "^", "sSub": "_"}
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def write_marks(root: Any) -> None:
    """Replace each by a text that says the same."""
    for symbol in list(root.iter(f"{WORD_NS}sym")):
        _replace(symbol, _symbol(symbol.get(f"{WORD_NS}char", ""), symbol.get(f"{WORD_NS}font", "")))
    for field in list(root.iter(f"{WORD_NS}ffData")):
        mark = field.getparent()
        if text := _field_text(field):
            mark.addnext(_text(text))
        mark.remove(field)
    for ruby in list(root.iter(f"{WORD_NS}ruby")):
        base = ruby.find(f"{WORD_NS}rubyBase")
        _replace(ruby, "".join(text.text or "" for text in base.iter(f"{WORD_NS}t")) if base is not None else "")
    for formula in list(root.iter(f"{MATH_NS}oMath")):
        run = formula.makeelement(f"{WORD_NS}r")
        run.append(_text(_linear(formula, 0)))
        run.tail = formula.tail
        formula.getparent().replace(formula, run)


def _text(text: str) -> Any:
    from lxml import etree

    element = etree.Element(f"{WORD_NS}t")
    element.text = text
    element.set(_SPACE, "preserve")
    return element


def _replace(element: Any, text: str) -> None:
    new = _text(text)
    new.tail = element.tail
    element.getparent().replace(element, new)


def _symbol(code: str, font: str) -> str:
    """Fonts of symbols keep their characters from U+F000 on."""
    try:
        number = int(code, 16)
        char = chr(number)
    except (ValueError, OverflowError):
        return ""
    if not 0xF000 <= number <= 0xF0FF:
        return char
    table = SYMBOL if font.lower().startswith("symbol") else WINGDINGS
    return table.get(number - 0xF000, "")


def _field_text(field: Any) -> str:
    """A check box or a drop-down list of a form made with the old fields; text fields hold their text themselves."""
    box = field.find(f"{WORD_NS}checkBox")
    if box is not None:
        ticked = is_on(box, "checked")
        return "☒" if (ticked if ticked is not None else is_on(box, "default")) else "☐"
    choice = field.find(f"{WORD_NS}ddList")
    if choice is None:
        return ""
    entries = [entry.get(f"{WORD_NS}val", "") for entry in choice.iter(f"{WORD_NS}listEntry")]
    chosen = value_of(choice, "result") or value_of(choice, "default") or "0"
    return entries[int(chosen)] if chosen.isdecimal() and int(chosen) < len(entries) else ""


def _linear(element: Any, depth: int) -> str:
    """An equation on one line: a/b, x^2, x_i, √(x)."""
    kind = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
    if kind in ("t", "delText") or depth > MAX_DEPTH:
        return "".join(element.itertext())
    parts = {child.tag.rpartition("}")[2]: _linear(child, depth + 1) for child in element if isinstance(child.tag, str)}
    if kind == "f":
        return f"{_grouped(parts.get('num', ''))}/{_grouped(parts.get('den', ''))}"
    if kind in ("sSup", "sSub", "sSubSup"):
        sub = f"_{_grouped(parts['sub'])}" if "sub" in parts else ""
        return f"{parts.get('e', '')}{sub}" + (f"^{_grouped(parts['sup'])}" if "sup" in parts else "")
    if kind == "rad":
        return f"{parts.get('deg', '')}√({parts.get('e', '')})"
    if kind == "d":
        return f"({', '.join(_linear(child, depth + 1) for child in element.iterchildren(f'{MATH_NS}e'))})"
    if kind == "nary":
        sign = element.find(f"{MATH_NS}naryPr/{MATH_NS}chr")
        shown = sign.get(f"{MATH_NS}val", "∫") if sign is not None else "∫"
        limits = "".join(
            f"{mark}{_grouped(parts[key])}" for key, mark in (("sub", "_"), ("sup", "^")) if parts.get(key)
        )
        return f"{shown}{limits} {parts.get('e', '')}"
    separator = " " if kind in ("m", "mr", "eqArr") else ""
    return separator.join(_linear(child, depth + 1) for child in element if isinstance(child.tag, str))


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"
