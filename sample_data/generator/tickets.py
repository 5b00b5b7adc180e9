"""Sixty support tickets: sentences picked by a seeded chance from source/tickets.yaml, written down in many ways."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import yaml

SEED = 20250601
ENGLISH_TICKETS, CHINESE_TICKETS = 48, 12
FIRST_DAY = datetime.date(2025, 5, 1)
URGENT_NUMBER = 53  # a customer who stands before a locked door
URGENT_PRIORITY = 10


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of trouble with one product."""

    product: str
    openings: list[str]
    problems: list[str]
    details: list[str]
    asks: list[str]


@dataclass(frozen=True, slots=True)
class Material:
    """The content of source/tickets.yaml."""

    english: list[Scenario]
    chinese: list[Scenario]
    log_lines: list[str]
    background: list[str]
    names: list[str]
    chinese_names: list[str]
    channels: list[str]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The sentences of one ticket, facts filled in."""

    opening: str
    body: list[str]
    ask: str
    name: str
    log: list[str]
    background: list[str]


def read_material(text: str) -> Material:
    """The YAML file as values. Raises TypeError when a key is missing or unknown."""
    data = yaml.safe_load(text)
    english, chinese = ([Scenario(**item) for item in data.pop(key)] for key in ("english", "chinese"))
    return Material(english=english, chinese=chinese, **data)


def tickets_jsonl(material: Material) -> str:
    """JSON lines: `{"id", "text", "metadata", "priority"?}`."""
    chance = random.Random(SEED)
    languages = ["en"] * ENGLISH_TICKETS + ["zh"] * CHINESE_TICKETS
    chance.shuffle(languages)
    turns = {"en": _turns(material.english), "zh": _turns(material.chinese)}
    records = [
        _record(number, language, turns[language].pop(0), material, chance)
        for number, language in enumerate(languages, start=1)
    ]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _turns(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, str]]:
    """Every scenario with each of its problems once, then from the start, so that no two neighbours are alike."""
    rounds = max(len(scenario.problems) for scenario in scenarios)
    once = [(s, s.problems[turn]) for turn in range(rounds) for s in scenarios if turn < len(s.problems)]
    return once * (ENGLISH_TICKETS // len(once) + 1)


def _record(
    number: int, language: str, turn: tuple[Scenario, str], material: Material, chance: random.Random
) -> dict[str, object]:
    scenario, problem = turn
    parts = _pick(scenario, problem, language, material, chance)
    styles = CHINESE_STYLES if language == "zh" else ENGLISH_STYLES
    record: dict[str, object] = {
        "id": f"T-{1000 + number}",
        "text": styles[number % len(styles)](parts),
        "metadata": {
            "customer": parts.name,
            "channel": chance.choice(material.channels),
            "product": scenario.product,
            "language": language,
            "received": (FIRST_DAY + datetime.timedelta(hours=11 * number)).isoformat(),
        },
    }
    return {**record, "priority": URGENT_PRIORITY} if number == URGENT_NUMBER else record


def _pick(scenario: Scenario, problem: str, language: str, material: Material, chance: random.Random) -> _Parts:
    facts = _facts(language, chance)

    def fill(text: str) -> str:
        return text.format(**facts)

    details = chance.sample(scenario.details, chance.randint(1, 3))
    return _Parts(
        opening=fill(chance.choice(scenario.openings)),
        body=[fill(sentence) for sentence in (problem, *details)],
        ask=fill(chance.choice(scenario.asks)),
        name=chance.choice(material.chinese_names if language == "zh" else material.names),
        log=[fill(line) for line in material.log_lines],
        background=chance.sample(material.background, 2),
    )


def _facts(language: str, chance: random.Random) -> dict[str, str]:
    day = datetime.date(2025, 3, 1) + datetime.timedelta(days=chance.randrange(60))
    amount = chance.randrange(1900, 48000) / 100
    return {
        "order": f"FH-{chance.randrange(100000, 999999)}",
        "date": f"{day.month}月{day.day}日" if language == "zh" else f"{day.day} {day:%B}",
        "amount": f"{amount:.2f}元"
        if language == "zh"
        else chance.choice(["€{}", "EUR {}", "£{}"]).format(f"{amount:.2f}"),
        "serial": f"{chance.choice('ABCK')}{chance.randrange(10**7, 10**8)}",
        "version": f"{chance.randint(2, 5)}.{chance.randint(0, 14)}.{chance.randint(0, 9)}",
    }


def _plain(parts: _Parts) -> str:
    return " ".join([parts.opening, *parts.body, parts.ask])


def _mail(parts: _Parts) -> str:
    return f"Dear support team,\n\n{parts.opening} {' '.join(parts.body)}\n\n{parts.ask}\n\nKind regards\n{parts.name}"


def _long_mail(parts: _Parts, backgrounds: int = 1) -> str:
    first, *rest = parts.body
    background = "\n\n".join(parts.background[:backgrounds])
    return (
        f"Hello,\n\n{parts.opening} {first}\n\n{background}\n\n{' '.join(rest)} {parts.ask}\n\n"
        f"{parts.name}\n-- \nSent from my phone, please excuse short sentences."
    )


def _longest_mail(parts: _Parts) -> str:
    return _long_mail(parts, backgrounds=2)


def _brief(parts: _Parts) -> str:
    return f"{parts.body[0]} {parts.ask}"


def _shouted(parts: _Parts) -> str:
    return f"{parts.opening.upper().rstrip('.!?')}!!!\n{' '.join(parts.body)}\n{parts.ask.upper()}"


def _reply(parts: _Parts) -> str:
    quoted = (
        "> Thank you for your message. Your request is important to us.\n"
        "> Have you tried to switch the device off and on again?"
    )
    return f"RE: RE: {parts.opening}\n\n{quoted}\n\nYes, of course. {' '.join(parts.body)}\n{parts.ask}\n{parts.name}"


def _html(parts: _Parts) -> str:
    items = "".join(f"<li>{sentence}</li>" for sentence in parts.body)
    return f"<p>{parts.opening}&nbsp;</p><ul>{items}</ul><p>{parts.ask}<br>\r\n{parts.name}</p>"


def _logged(parts: _Parts) -> str:
    return "\n".join([parts.opening, *parts.body, "", *parts.log, "", parts.ask])


def _bulleted(parts: _Parts) -> str:
    items = "\n".join(f"  {number})\t{sentence}" for number, sentence in enumerate(parts.body, start=1))
    return f"{parts.opening}   Facts:\n\n\n{items}\n\n   {parts.ask}   "


def _chinese_plain(parts: _Parts) -> str:
    return "".join([parts.opening, *parts.body, parts.ask])


def _chinese_mail(parts: _Parts) -> str:
    return f"客服您好：\n\n    {parts.opening}{''.join(parts.body)}\n\n    {parts.ask}\n\n{parts.name}"


def _chinese_mixed(parts: _Parts) -> str:
    return f"{parts.opening}\n------\n{' '.join(parts.body)}\n\n{parts.ask} Thanks!! {parts.name}"


Style = Callable[[_Parts], str]
ENGLISH_STYLES: tuple[Style, ...] = (
    *(_plain, _mail, _long_mail, _brief, _shouted, _reply),
    *(_html, _plain, _logged, _bulleted, _longest_mail),
)
CHINESE_STYLES: tuple[Style, ...] = (_chinese_plain, _chinese_mail, _chinese_mixed)
