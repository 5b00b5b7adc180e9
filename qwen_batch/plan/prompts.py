"""The wording: a job's templates and a document's text -> the messages of one call.

Templates are filled in one pass, so braces in a document, a question or an answer are text like any other. In a
template `{name}` must be a known placeholder, `{{name}}` stands for the text `{name}`, and every other brace is text.
What is the same for all documents stands first, so that it is computed once; what tells the parts of a document apart
stands inside the document part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qwen_batch.errors import JobError
from qwen_batch.job import LongDocumentsSection, PromptSection
from qwen_batch.records import Chunk, CleanDocument, Message

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEMPLATE_NAMES = ("question", "document", "source", "doc_id")
_PART_NAMES = ("part", "parts", "first_page", "last_page")


@dataclass(frozen=True, slots=True)
class Note:
    """What the model said about a run of parts of one document; parts count from 1."""

    first_part: int
    last_part: int
    first_page: int
    last_page: int
    text: str


@dataclass(frozen=True, slots=True)
class Template:
    """A text with placeholders."""

    key: str  # of the job file, for messages
    text: str
    allowed: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in self.allowed:
                known = ", ".join(f"{{{known}}}" for known in self.allowed)
                raise JobError(
                    f"{self.key}: {{{name}}} is not a placeholder; use {known}, or write {{{{{name}}}}} "
                    f"for the text {{{name}}}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the placeholders, in order."""
        return tuple(match[2] for match in _PLACEHOLDER.finditer(self.text) if match[2])

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with `values` in place of the placeholders; the values themselves are not looked into."""
        return _PLACEHOLDER.sub(lambda match: values[match[2]] if match[2] else f"{{{match[1]}}}", self.text)


class Prompts:
    """A job's wording, checked once. Raises JobError for a template that cannot be filled in."""

    def __init__(self, prompt: PromptSection, long_documents: LongDocumentsSection) -> None:
        self._question = prompt.question
        self._system = prompt.system
        self._template = Template("prompt.template", prompt.template, _TEMPLATE_NAMES)
        self._map = Template("long_documents.map_prompt", long_documents.map_prompt, ("question", *_PART_NAMES))
        self._reduce = Template("long_documents.reduce_prompt", long_documents.reduce_prompt, ("question",))
        if self._template.names.count("document") != 1:
            raise JobError("prompt.template: write {document} once, where the document's text belongs")
        if "question" in self._template.names:
            self._part_template = self._template
            self.has_question = bool(prompt.question.strip()) or prompt.template != PromptSection().template
        elif prompt.question.strip():
            raise JobError("prompt.template: write {question} where the question belongs, or leave prompt.question out")
        else:  # the template itself asks; what is said about parts and notes goes before it
            self._part_template = Template(
                self._template.key, "{question}\n\n" + self._template.text, self._template.allowed
            )
            self.has_question = True

    def document_messages(self, document: CleanDocument) -> tuple[Message, ...]:
        """The question about a whole document."""
        return self._messages(self._template, document, self._question, document.text)

    def map_messages(self, document: CleanDocument, chunk: Chunk, num_chunks: int) -> tuple[Message, ...]:
        """The question about one part. Which part it is stands at its beginning unless the map prompt says it."""
        pages = {"first_page": str(chunk.first_page), "last_page": str(chunk.last_page)}
        part = {"part": str(chunk.index + 1), "parts": str(num_chunks)}
        question = self._map.fill({"question": self._question, **part, **pages})
        text = chunk.text
        if not set(self._map.names) & set(_PART_NAMES):
            pages_label = _pages_label(document, chunk.first_page, chunk.last_page)
            text = f"[Part {chunk.index + 1} of {num_chunks}{pages_label}]\n{text}"
        return self._messages(self._part_template, document, question, text)

    def reduce_messages(self, document: CleanDocument, notes: Sequence[Note]) -> tuple[Message, ...]:
        """The question about the answers to parts."""
        question = self._reduce.fill({"question": self._question})
        text = "\n\n".join(note_text(document, note) for note in notes)
        return self._messages(self._part_template, document, question, text)

    def conversation_messages(self, document: CleanDocument) -> tuple[Message, ...]:
        """A record's own conversation, after the job's system message if it brings none."""
        given = document.messages
        if self._system and not any(message.role in ("system", "developer") for message in given):
            given = (Message("system", self._system), *given)
        return tuple(Message(message.role, well_formed(message.content)) for message in given)

    def _messages(self, template: Template, document: CleanDocument, question: str, text: str) -> tuple[Message, ...]:
        values = {"question": question, "document": text, "source": document.source, "doc_id": document.doc_id}
        user = Message("user", well_formed(template.fill(values)))
        return (Message("system", self._system), user) if self._system else (user,)


def note_text(document: CleanDocument, note: Note) -> str:
    """A note under a line that says where it is from."""
    one = note.first_part == note.last_part
    parts = f"Part {note.first_part}" if one else f"Parts {note.first_part}-{note.last_part}"
    return f"[{parts}{_pages_label(document, note.first_page, note.last_page)}]\n{note.text}"


def _pages_label(document: CleanDocument, first_page: int, last_page: int) -> str:
    if len(document.pages) < 2:
        return ""
    return f", page {first_page}" if first_page == last_page else f", pages {first_page}-{last_page}"


def well_formed(text: str) -> str:
    """The text with lone surrogates, which no tokenizer takes, replaced by U+FFFD; offsets stay."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
