from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_fakes import make_document, make_job, paged_document

from qwen_batch.errors import JobError
from qwen_batch.plan.prompts import Note, Prompts
from qwen_batch.records import Chunk, Message

BRACES = st.text(alphabet="{}questiondcmn_ \\1$", max_size=40)


def prompts(prompt: dict[str, str] | None = None, **long_documents: str) -> Prompts:
    job = make_job(**({"prompt": prompt} if prompt is not None else {}), long_documents=long_documents)
    return Prompts(job.prompt, job.long_documents)


def chunk(index: int = 2, text: str = "The part.", first_page: int = 4, last_page: int = 6) -> Chunk:
    return Chunk(index, text, first_page, last_page, 3, 0, len(text))


def test_document_messages() -> None:
    made = prompts({"question": "Who?", "system": "Be exact."}).document_messages(make_document("The text."))
    assert made == (
        Message("system", "Be exact."),
        Message("user", "Who?\n\n<document>\nThe text.\n</document>"),
    )


def test_no_system_message_unless_the_job_has_one() -> None:
    assert [m.role for m in prompts({"question": "Who?"}).document_messages(make_document("x"))] == ["user"]


def test_all_placeholders_of_the_template() -> None:
    template = "{doc_id} {source} {question} {document} {{document}} {} {1} {a b} {{}}"
    (message,) = prompts({"question": "Q", "template": template}).document_messages(make_document("D"))
    assert message.content == "a.pdf in/a.pdf Q D {document} {} {1} {a b} {{}}"


@given(BRACES, BRACES)
def test_braces_in_question_and_document_are_text(question: str, document: str) -> None:
    made = prompts({"question": question, "template": "{question}<{document}>"}, map_prompt="{question}")
    (message,) = made.document_messages(make_document(document))
    assert message.content == f"{question}<{document}>"
    (message,) = made.map_messages(make_document(), chunk(text=document), 9)
    assert message.content == f"{question}<[Part 3 of 9]\n{document}>"


def test_unknown_placeholder() -> None:
    with pytest.raises(JobError) as error:
        prompts({"question": "Q", "template": "{qestion} {document}"})
    assert str(error.value) == (
        "prompt.template: {qestion} is not a placeholder; use {question}, {document}, {source}, {doc_id}, "
        "or write {{qestion}} for the text {qestion}"
    )


@pytest.mark.parametrize(
    ("long_documents", "message"),
    [
        ({"map_prompt": "{document}"}, "long_documents.map_prompt: {document} is not"),
        ({"reduce_prompt": "{part}"}, "long_documents.reduce_prompt: {part} is not"),
    ],
)
def test_unknown_placeholder_of_the_other_prompts(long_documents: dict[str, str], message: str) -> None:
    with pytest.raises(JobError, match=message):
        prompts(**long_documents)


@pytest.mark.parametrize("template", ["{question}", "{question} {document} {document}", "{question} {{document}}"])
def test_a_template_holds_the_document_once(template: str) -> None:
    with pytest.raises(JobError, match=r"^prompt.template: write {document} once"):
        prompts({"question": "Q", "template": template})


def test_a_question_that_would_be_lost() -> None:
    with pytest.raises(JobError, match=r"write {question} where the question belongs"):
        prompts({"question": "Q", "template": "Translate {document}"})


def test_a_template_may_be_the_question() -> None:
    made = prompts({"template": "Translate:\n{document}"}, map_prompt="Part by part.", reduce_prompt="Join.")
    assert made.has_question
    assert made.document_messages(make_document("D"))[0].content == "Translate:\nD"
    assert made.map_messages(make_document(), chunk(), 5)[0].content.startswith("Part by part.\n\nTranslate:\n[Part 3")
    assert made.reduce_messages(make_document(), [])[0].content == "Join.\n\nTranslate:\n"


@pytest.mark.parametrize("question", ["", "  \n"])
def test_a_job_for_conversations_has_no_question(question: str) -> None:
    assert not prompts({"question": question}).has_question


def test_map_messages_share_everything_before_the_part() -> None:
    document = paged_document(["one", "two"])
    made = prompts({"question": "Who?"})
    (first,) = made.map_messages(document, chunk(0), 12)
    (second,) = made.map_messages(document, chunk(1, last_page=4), 12)
    prefix, _, rest = second.content.partition("<document>\n")
    assert first.content.startswith(prefix + "<document>\n")
    assert "Question: Who?" in prefix
    assert rest == "[Part 2 of 12, page 4]\nThe part.\n</document>"
    assert first.content.endswith("<document>\n[Part 1 of 12, pages 4-6]\nThe part.\n</document>")


def test_a_map_prompt_that_names_the_part_is_taken_as_it_is() -> None:
    made = prompts(map_prompt="{question} ({part}/{parts}, p. {first_page}-{last_page})")
    (message,) = made.map_messages(paged_document(["a", "b"]), chunk(), 7)
    assert message.content.startswith("List the parties and the dates. (3/7, p. 4-6)\n\n<document>\nThe part.\n")


def test_reduce_messages_say_where_each_note_is_from() -> None:
    made = prompts({"question": "Who?"}, reduce_prompt="Merge: {question}")
    notes = [Note(1, 1, 1, 3, "A {question}"), Note(2, 5, 4, 4, "B")]
    (message,) = made.reduce_messages(paged_document(["a", "b"]), notes)
    assert message.content == (
        "Merge: Who?\n\n<document>\n[Part 1, pages 1-3]\nA {question}\n\n[Parts 2-5, page 4]\nB\n</document>"
    )
    (message,) = made.reduce_messages(make_document(), notes)
    assert "[Part 1]\n" in message.content


@pytest.mark.parametrize(
    ("given_roles", "roles"),
    [(["user"], ["system", "user"]), (["system", "user"], ["system", "user"]), (["developer", "user"],) * 2],
)
def test_conversations_get_the_system_message_if_they_bring_none(given_roles: list[str], roles: list[str]) -> None:
    document = make_document(messages=tuple(Message(role, "own") for role in given_roles))
    made = prompts({"system": "The job's."}).conversation_messages(document)
    assert [message.role for message in made] == roles
    assert (made[0].content == "The job's.") is (len(roles) > len(given_roles))


def test_lone_surrogates_become_replacement_characters() -> None:
    document = make_document(messages=(Message("user", "a\ud800b😀"),))
    assert prompts().conversation_messages(document)[0].content == "a\ufffdb😀"
    named = make_document("x", doc_id="bad\udce4name")
    (message,) = prompts({"question": "Q", "template": "{doc_id} {question} {document}"}).document_messages(named)
    assert message.content == "bad\ufffdname Q x"
