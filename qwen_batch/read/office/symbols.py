"""Characters of the fonts Symbol and Wingdings, which have code points of their own (Unicode's mapping tables)."""

from __future__ import annotations

_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
_SMALL_GREEK = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
SYMBOL = {
    **{code: chr(code) for code in (*range(0x20, 0x40), 0x5B, 0x5D, 0x5F, 0x7B, 0x7C, 0x7D)},
    **{0x41 + place: char for place, char in enumerate(_GREEK)},
    **{0x61 + place: char for place, char in enumerate(_SMALL_GREEK)},
    **dict(zip((0x22, 0x24, 0x27, 0x2A, 0x2D, 0x40, 0x5C, 0x5E, 0x7E), "∀∃∋∗−≅∴⊥∼", strict=True)),
    **{
        0xA0 + place: char
        for place, char in enumerate("€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊")
    },
    0xE5: "∑",
    0xF2: "∫",
}
WINGDINGS = {
    0x22: "✂", 0x28: "☎", 0x2A: "✉", 0x36: "⌛", 0x3F: "✍", 0x41: "✌", 0x43: "👍", 0x44: "👎", 0x45: "☜", 0x46: "☞",
    0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "□", 0x71: "❑", 0x72: "❒", 0x73: "⬧",
    0x74: "⧫", 0x75: "◆", 0x76: "❖", 0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←",
    0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    **{0x80 + place: char for place, char in enumerate("⓪①②③④⑤⑥⑦⑧⑨⑩")},
    **{0x8B + place: char for place, char in enumerate("⓿❶❷❸❹❺❻❼❽❾❿")},
}  # fmt: skip
