"""What becomes of a hyphen at a line end."""

from __future__ import annotations

import json

import pytest
from clean_helpers import body, document, page

from qwen_batch.clean import clean_document
from qwen_batch.clean.hyphens import Vocabulary, join_texts
from qwen_batch.clean.words import LANGUAGES, is_word, unpacked
from qwen_batch.records import CleanSteps


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("the distribu-", "tion of goods", "the distribution of goods"),
        ("on each pay-", "day of the month", "on each pay-day of the month"),
        ("encourage a co-", "worker to leave", "encourage a co-worker to leave"),
        ("in a co-", "herent way", "in a coherent way"),
        ("reduced by one-", "sixth of it", "reduced by one-sixth of it"),
        ("all thir-", "teen of them", "all thirteen of them"),
        ("four-", "teen days", "fourteen days"),
        ("a self-", "employed person", "a self-employed person"),
        ("pre-", "and post-sale", "pre- and post-sale"),
    ],
)
def test_hyphens_at_line_ends(before: str, after: str, joined: str) -> None:
    assert join_texts(before, after, Vocabulary(["She gets her pay within 12 days."])) == joined


ENGLISH = "the court of the state and the people to whom this is addressed"
GERMAN = "der Hof und das Land, von dem nicht die Rede ist"


@pytest.mark.parametrize(
    ("about", "before", "after", "joined"),
    [
        (ENGLISH, "the terri-", "tories of it", "the territories of it"),
        (ENGLISH, "the second-", "story window", "the second-story window"),
        (ENGLISH, "a state-of-the-", "art machine", "a state-of-the-art machine"),
        (ENGLISH, "the Atcha-", "falaya river", "the Atchafalaya river"),
        (ENGLISH, "of such people-", "person talks", "of such people-person talks"),
        (ENGLISH, "for the multi-", "arch system", "for the multi-arch system"),
        (ENGLISH, "for the multi-", "plication of it", "for the multiplication of it"),
        (ENGLISH, "for the semi-", "finals of it", "for the semifinals of it"),
        (ENGLISH, "open my-", "file.txt there", "open my-file.txt there"),
        (ENGLISH, "open the docu-", "ment.pdf there", "open the document.pdf there"),
        (ENGLISH, "run it --no-", "install-recommends", "run it --no-install-recommends"),
        (ENGLISH, "to Mr Wise-", "man of the court", "to Mr Wiseman of the court"),
        (ENGLISH, "the BACK-", "GROUND of it", "the BACKGROUND of it"),
        (ENGLISH, "the UN-", "MISSION there", "the UN-MISSION there"),
        (GERMAN, "die Verzweigun-", "gen von ihm", "die Verzweigungen von ihm"),
        (GERMAN, "das Hof-", "land ist", "das Hofland ist"),
        (GERMAN, "das Hof-", "Land ist", "das Hof-Land ist"),
        (ENGLISH, "und das Fundamental-", "gruppen nicht", "und das Fundamentalgruppen nicht"),  # the line tells
    ],
)
def test_the_words_of_the_language_decide_where_the_document_does_not(
    about: str, before: str, after: str, joined: str
) -> None:
    assert join_texts(before, after, Vocabulary([about])) == joined


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("to his mother-in-", "law", "to his mother-in-law"),
        ("of day-to-", "day work", "of day-to-day work"),
        ("by e-", "mail", "by e-mail"),
        ("an X-", "ray", "an X-ray"),
        ("in 2019-", "2020", "in 2019-2020"),
        ("of COVID-", "19", "of COVID-19"),
        ("an F-", "16", "an F-16"),
        ("Mary Smith-", "Jones", "Mary Smith-Jones"),
        ("U.S.-", "China trade", "U.S.-China trade"),
        ("in 2019–", "2020", "in 2019–2020"),
        ("pages 12", "–15", "pages 12–15"),
        ("one thing—", "another", "one thing—another"),
        ("one thing –", "another", "one thing – another"),
        ("one thing", "— another", "one thing — another"),
        ("Arbeitgeber-", "/Arbeitnehmer", "Arbeitgeber-/Arbeitnehmer"),
        ("Rechts-", "und Pflichten", "Rechts- und Pflichten"),
        ("Nord-", "Süd-Achse", "Nord-Süd-Achse"),
        ("US-", "amerikanisch", "US-amerikanisch"),
        ("see https://a.example/foo-", "bar/baz", "see https://a.example/foo-bar/baz"),
        ("see https://www.example.", "com/foo now", "see https://www.example.com/foo now"),
        ("see https://www.example", ".com/foo now", "see https://www.example.com/foo now"),
        ("see https://www.example.com.", "The end", "see https://www.example.com. The end"),
        ("see https://www.example.com", "and more", "see https://www.example.com and more"),
        ("see http://www.", "example.com", "see http://www.example.com"),
        ("to john.doe@", "example.com", "to john.doe@example.com"),
        ("to john.doe@example.", "com", "to john.doe@example.com"),
        ("to john.doe@exam-", "ple.com", "to john.doe@exam-ple.com"),
    ],
)
def test_hyphens_dashes_and_addresses_that_a_line_end_divides(before: str, after: str, joined: str) -> None:
    assert join_texts(before, after, Vocabulary([ENGLISH, "today"])) == joined


def test_the_document_comes_before_the_list() -> None:
    said = [ENGLISH, "It is a world-wide matter.", "The distributionlist is long."]
    assert join_texts("a world-", "wide thing", Vocabulary(said)) == "a world-wide thing"
    assert join_texts("the distribution-", "list", Vocabulary(said)) == "the distributionlist"


def test_every_word_of_the_lists_is_found() -> None:
    for language in LANGUAGES:
        words = json.loads(unpacked(language))
        sample = [*list(words)[:2], *list(words)[:: len(words) // 500], list(words)[-1]]
        assert [word for word in sample if not is_word(word, language)] == []
        assert [word for word in sample if is_word(f"{word}q", language) != (f"{word}q" in words)] == []
    assert not any(is_word(word, "en") for word in ("", "{", "}", '"', "zzzzzz"))


def test_texts_in_other_languages_ask_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen_batch.clean.words.unpacked", lambda language: pytest.fail("a list was asked"))
    assert join_texts("la distribu-", "tion du bien", Vocabulary(["la loi et le contrat"])) == "la distribution du bien"


def test_a_list_goes_on_over_a_page_break() -> None:
    first = page(1, *body(["The Contractor shall do all of this:", "(a) watch the cameras;"]))
    second = page(2, *body(["(b) patrol the grounds."]))
    text = clean_document(document(first, second), CleanSteps()).text
    assert text.endswith("(a) watch the cameras;\n(b) patrol the grounds.")
