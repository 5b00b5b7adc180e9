from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_fakes import FakeTokenizer, WildTokenizer, make_document, paged_document

from qwen_batch.plan.chunks import MIN_CHUNK_SIZE, iter_chunks, iter_spans
from qwen_batch.plan.tokens import iter_sections
from qwen_batch.records import Chunk, CleanDocument

PIECES = st.lists(
    st.sampled_from(
        [
            "the parties agree. ",
            "No. 5, Acme Inc. ",
            "甲方应付款。",
            "乙方交货；",
            "\n\n",
            "\n",
            "\n# Title\n\n",
            "| a b | c |\n",
            "e\u0301e\u0301e\u0301",
            "👍🏽",
            "x" * 90,
            " " * 50,
            "2024-05-01 ",
            "第三条 ",
            "\r\n",
        ]
    ),
    max_size=80,
)


def split_document(document: CleanDocument, tokenizer: FakeTokenizer, size: int, overlap: int = 0) -> tuple[Chunk, ...]:
    encoded = tokenizer.encode_text(document.text)
    return tuple(iter_chunks(document, iter_spans(document.text, encoded, size, overlap)))


def check(
    document: CleanDocument, chunks: tuple[Chunk, ...], tokenizer: FakeTokenizer, size: int, overlap: int
) -> None:
    text = document.text
    covered = bytearray(len(text))
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""
        assert chunk.num_tokens == len(tokenizer.encode(chunk.text)) <= size
        covered[chunk.start : chunk.end] = b"\x01" * (chunk.end - chunk.start)
    assert all(covered[i] or character.isspace() for i, character in enumerate(text))
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        if after.start < before.end:
            assert len(tokenizer.encode(text[after.start : before.end])) <= overlap


@settings(max_examples=150, deadline=None)
@given(PIECES, st.integers(MIN_CHUNK_SIZE, 60), st.integers(0, 29), st.sampled_from([FakeTokenizer, WildTokenizer]))
def test_chunks_cover_the_text_within_their_size(
    pieces: list[str], size: int, overlap: int, kind: type[FakeTokenizer]
) -> None:
    overlap = min(overlap, (size - 1) // 2)
    tokenizer = kind()
    document = make_document("".join(pieces))
    chunks = split_document(document, tokenizer, size, overlap)
    check(document, chunks, tokenizer, size, overlap)
    assert chunks == split_document(document, kind(), size, overlap)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["", "one two three. ", "甲方应付款。" * 5, "word " * 40]), min_size=1, max_size=12),
    st.sampled_from(["", "\n\n"]),
)
def test_page_spans(pages: list[str], separator: str) -> None:
    document = paged_document(pages, separator)
    for chunk in split_document(document, FakeTokenizer(), 32, 8):
        inside = [
            page.page_number
            for page, start in zip(document.pages, document.page_starts, strict=True)
            if page.text.strip() and start < chunk.end and chunk.start < start + len(page.text.rstrip())
        ]
        assert (chunk.first_page, chunk.last_page) == (min(inside), max(inside))


def test_page_numbers_are_those_of_the_pages() -> None:
    document = paged_document(["one " * 20, "two " * 20])
    renumbered = make_document(document.text, pages=document.pages[1:] * 2, page_starts=document.page_starts)
    assert {c.first_page for c in split_document(renumbered, FakeTokenizer(), 24)} == {2}


def test_text_without_pages_is_page_one() -> None:
    chunk, *_ = split_document(make_document("word " * 50), FakeTokenizer(), 20)
    assert (chunk.first_page, chunk.last_page) == (1, 1)


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_no_text_no_chunks(text: str) -> None:
    assert split_document(make_document(text), FakeTokenizer(), 20) == ()


def test_a_text_that_fits_is_one_chunk() -> None:
    (chunk,) = split_document(make_document("  Two words.\n"), FakeTokenizer(), 20, 5)
    assert (chunk.text, chunk.start, chunk.end) == ("Two words.", 2, 12)


def section(title: str, sentences: int) -> str:
    return f"# {title}\n\n" + "The party of this part will pay the sum that is due to the other. " * sentences


def test_divides_at_headings_first() -> None:
    text = "\n\n".join(section(title, 6) for title in ("One", "Two", "Three", "Four"))
    chunks = split_document(make_document(text), FakeTokenizer(), 150)
    assert [chunk.text.splitlines()[0] for chunk in chunks] == ["# One", "# Two", "# Three", "# Four"]


def test_divides_at_paragraphs_before_sentences() -> None:
    paragraph = "The sum is due. It will be paid. " * 3
    text = "\n\n".join([paragraph.strip()] * 8)
    chunks = split_document(make_document(text), FakeTokenizer(), 90)
    assert len(chunks) > 2
    assert all(chunk.text.endswith("paid.") and chunk.text.startswith("The sum") for chunk in chunks)


@pytest.mark.parametrize(
    ("sentence", "ends", "size"),
    [
        ("The sum of No. 5 is due to Acme Inc. and others. ", "others.", 60),
        ("甲方应当在第5日，支付全部款项。", "。", 90),
    ],
)
def test_divides_at_sentences_before_words(sentence: str, ends: str, size: int) -> None:
    chunks = split_document(make_document(sentence * 30), FakeTokenizer(), size)
    assert len(chunks) > 3
    assert all(chunk.text.endswith(ends) for chunk in chunks)


def test_divides_between_words_where_sentences_are_too_long() -> None:
    words = [f"w{chr(97 + i % 26)}" for i in range(400)]
    chunks = split_document(make_document(" ".join(words)), FakeTokenizer(), 50)
    assert [word for chunk in chunks for word in chunk.text.split()] == words


def test_divides_hard_only_inside_what_fits_nowhere() -> None:
    blob = "x" * 400
    text = f"Some words stand before it. {blob} And some words stand after it."
    chunks = split_document(make_document(text), FakeTokenizer(), 40)
    words = {word for chunk in chunks for word in chunk.text.split()}
    assert {"Some", "words", "stand", "before", "it.", "And", "after"} <= words
    assert all(word.strip("x") == "" or word in text.split() for word in words)


def test_what_fits_whole_is_not_divided_for_the_sake_of_balance() -> None:
    blob = "x" * 180  # 45 of 50 tokens
    chunks = split_document(make_document(f"few words {blob} few words"), FakeTokenizer(), 50)
    assert blob in {word for chunk in chunks for word in chunk.text.split()}


def test_table_rows_stay_whole() -> None:
    row = "| The party | will pay. And more, too | 100.00 EUR |"
    text = "\n".join([row] * 40)
    chunks = split_document(make_document(text), FakeTokenizer(), 80, 20)
    assert len(chunks) > 5
    assert all(line == row for chunk in chunks for line in chunk.text.splitlines())


def test_accents_stay_with_their_letters() -> None:
    chunks = split_document(make_document("e\u0301" * 300), FakeTokenizer(), 31)
    assert len(chunks) > 10
    assert all(chunk.text.startswith("e") and chunk.text.endswith("\u0301") for chunk in chunks)


@pytest.mark.parametrize("num_words", [101, 120, 199, 201, 305, 1001])
def test_chunks_are_balanced(num_words: int) -> None:
    chunks = split_document(make_document("word " * num_words), FakeTokenizer(), 200, 20)
    sizes = [chunk.num_tokens for chunk in chunks]
    assert len(chunks) == 1 + max(0, -(-(2 * num_words - 200) // 180))
    assert min(sizes) > 0.75 * max(sizes)


def test_text_without_any_break_is_balanced_too() -> None:
    chunks = split_document(make_document("x" * 4 * 205), FakeTokenizer(), 100)
    assert [chunk.num_tokens for chunk in chunks] == [68, 68, 69]


def test_overlap_repeats_whole_sentences() -> None:
    text = " ".join(f"Party {chr(65 + i % 26)} pays the sum due." for i in range(80))
    chunks = split_document(make_document(text), FakeTokenizer(), 100, 30)
    for before, after in pairwise(chunks):
        repeated = text[after.start : before.end]
        assert repeated.startswith("Party")
        assert repeated.endswith("due.")
        assert 15 <= len(FakeTokenizer().encode(repeated)) <= 30


def test_overlap_of_words_where_a_sentence_is_too_long() -> None:
    chunks = split_document(make_document("word " * 300), FakeTokenizer(), 100, 10)
    for before, after in pairwise(chunks):
        assert before.end - after.start == len("word word word word word")


def test_no_overlap_unless_asked() -> None:
    chunks = split_document(make_document("word " * 300), FakeTokenizer(), 100)
    assert all(before.end < after.start for before, after in pairwise(chunks))


@pytest.mark.parametrize(("size", "overlap"), [(MIN_CHUNK_SIZE - 1, 0), (40, 20), (40, -1)])
def test_sizes_that_make_no_sense_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        split_document(make_document("text"), FakeTokenizer(), size, overlap)


@pytest.mark.parametrize(
    "unit", ["The sum is due. ", "x", "甲方应付款。", "| a | b |\n", "e\u0301", "\n\n# A\n\n", "A. "]
)
def test_work_grows_with_the_text_alone(unit: str) -> None:
    def encoded(length: int) -> float:
        tokenizer = FakeTokenizer()
        split_document(make_document(unit * (length // len(unit))), tokenizer, 200, 50)
        return tokenizer.num_encoded_chars / length

    assert encoded(40_000) <= 1.2 * encoded(10_000) <= 12


def test_a_long_text_takes_seconds() -> None:
    paragraph = "The party of the first part will pay the sum of 5 EUR to Acme Inc. within thirty days. " * 6 + "\n\n"
    text = paragraph * (1_000_000 // len(paragraph))
    start = time.process_time()
    chunks = split_document(make_document(text), FakeTokenizer(), 10_000, 200)
    assert len(chunks) > 20
    assert time.process_time() - start < 15


@given(text=st.text(alphabet="ab \n", max_size=400), size=st.integers(1, 40))
def test_sections_are_the_text(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qwen_batch.plan.tokens.SECTION", size)
        sections = list(iter_sections(text))
    assert "".join(text[start:end] for start, end in sections) == text
    assert all(0 < end - start <= size for start, end in sections)
