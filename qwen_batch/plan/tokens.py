"""What planning needs of a tokenizer, and cutting text by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from qwen_batch.records import Message


class Tokenizer(Protocol):
    """A model's own tokenizer. None of the methods adds special tokens except `encode_chat(s)`, which adds its own.

    Token counts do not add up: `encode(a + b)` may be shorter or longer than `encode(a)` and `encode(b)` together.
    Planning therefore estimates by sums and decides by counting the final text.
    """

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        ...

    def encode_with_offsets(self, text: str) -> tuple[Sequence[int], Sequence[tuple[int, int]]]:
        """Token ids, and for each the [start, end) of its characters in `text`, in order."""
        ...

    def encode_text(self, text: str, tick: Callable[[int], None] = ...) -> EncodedText:
        """A long text, of which many parts are to be known. `tick` is told how many characters are done, now and then,
        and may raise to break off."""
        ...

    def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
        """Token ids of a whole prompt: the chat template around the messages, ready for the answer."""
        ...

    def encode_chats(self, chats: Sequence[Sequence[Message]], thinking: bool) -> list[list[int]]:
        """`encode_chat` of each."""
        ...


class EncodedText(Protocol):
    """A long text and its tokens. Places are near enough for estimates; counts and ids are exact."""

    @property
    def num_tokens(self) -> int: ...

    def token_at(self, offset: int) -> int:
        """Number of the first token that starts at `offset` or after."""
        ...

    def start_of(self, token: int) -> int:
        """Offset at which a token starts; the text's length for numbers beyond the last."""
        ...

    def count(self, start: int, end: int) -> int:
        """Tokens of the part [start, end) by itself."""
        ...

    def encode_chat(self, messages: Sequence[Message], thinking: bool, start: int, end: int) -> Sequence[int]:
        """`encode_chat` of messages that hold this part."""
        ...

    def forget(self, offset: int) -> None:
        """Let go of what is before this place: no part that begins earlier is asked for any more."""
        ...


# Characters that are encoded at a time. A tokenizer takes some 150 bytes for each, so that a text of 100 MB would not
# fit in any machine.
SECTION = 1 << 18
_SEAM_TOKENS = 8  # that the two sides of a cut may have more than both together, and plenty


def iter_sections(text: str) -> Iterator[tuple[int, int]]:
    """[start, end) of sections of at most SECTION characters, cut at line ends or spaces where there are any."""
    start = 0
    while start < len(text):
        end = min(start + SECTION, len(text))
        if end < len(text):
            cut = text.rfind("\n", start + 1, end)
            cut = cut if cut != -1 else text.rfind(" ", start + 1, end)
            end = cut if cut != -1 else end
        yield start, end
        start = end


def exceeds(text: str, tokenizer: Tokenizer, limit: int) -> bool:
    """Whether a text certainly has more than `limit` tokens. Looks no further than it must."""
    count = 0
    for start, end in iter_sections(text):
        count += len(tokenizer.encode(text[start:end])) - _SEAM_TOKENS
        if count > limit:
            return True
    return False


def shorten(text: str, tokenizer: Tokenizer, max_tokens: int) -> str:
    """The longest beginning of `text` found that has at most `max_tokens` tokens, without white space at its end."""
    limit = max_tokens
    while limit > 0:
        ids, offsets = tokenizer.encode_with_offsets(text)
        if len(ids) <= max_tokens:
            return text
        # A cut may change how the characters before it are merged, so the shorter text is counted again.
        cut = text[: offsets[min(limit, len(ids) - 1)][0]].rstrip()
        text, limit = (cut, limit - 1) if len(cut) < len(text) else (text[:-1], limit - 1)
    return text if text and len(tokenizer.encode(text)) <= max_tokens else ""
