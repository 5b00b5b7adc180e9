"""Text <-> token ids, as the model's makers meant it, with one thing kept out: control tokens in documents.

A document may hold the text of a control token, such as `<|im_end|>`. Taken as the token, it would end the message it
stands in and let the document speak as system or assistant. Contents are therefore encoded as plain text throughout;
where they hold no such text, the ids are exactly those of transformers' `apply_chat_template`.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
from jinja2 import TemplateError
from tokenizers import AddedToken, Encoding, Tokenizer
from tokenizers.decoders import ByteLevel, DecodeStream
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from qwen_batch.errors import DocumentError, ModelError
from qwen_batch.model.encoded_text import EncodedText
from qwen_batch.model.seams import has_seams
from qwen_batch.records import Message

# Encoding goes on beside other work: a pool of threads would take cores from it, and forbids forks once it was used.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Unicode's private planes: characters that stand for nothing, and that a template leaves alone.
PRIVATE_FIRST, PRIVATE_LAST = 0xF0000, 0x10FFFD


class ChatTokenizer:
    """The tokenizer and the chat template of one model. Never changes after loading; threads may share it."""

    def __init__(self, hf_tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        self.folder = folder
        self._hf = hf_tokenizer
        self._tokenizer: Tokenizer = hf_tokenizer.backend_tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        added: dict[int, AddedToken] = self._tokenizer.get_added_tokens_decoder()
        self._special = {token.content: id_ for id_, token in added.items() if token.special and token.content}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        # Where special tokens are looked for after normalisation, text that merely resembles one may become it.
        self._always_plain = any(token.normalized for token in added.values() if token.special)
        self.eos_token_ids: frozenset[int] = _read_eos_token_ids(folder, hf_tokenizer.eos_token_id)
        self.vocab_size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)

    @classmethod
    def load(cls, folder: str | Path) -> ChatTokenizer:
        """Load from a model's folder, without network and without running code from it.

        Raises ModelError when there is no tokenizer that we can run.
        """
        path = Path(folder)
        try:
            hf_tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # tokenizers raises bare Exception, and each tokenizer class others
            raise ModelError(f"{path}: the tokenizer cannot be loaded: {error}") from error
        if not isinstance(getattr(hf_tokenizer, "backend_tokenizer", None), Tokenizer):
            raise ModelError(f"{path}: the tokenizer has no fast form; add its tokenizer.json to the folder")
        return cls(hf_tokenizer, path)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: nothing is added, and the text of a control token is text."""
        return _encode_ids(self._tokenizer_for(text), text)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of plain text, and where each begins and ends in `text`, in characters.

        Several tokens may share one character. Offsets ascend, but need not touch: a normaliser may drop characters.
        """
        encoding = _encode(self._tokenizer_for(text), text)
        return encoding.ids, encoding.offsets

    def encode_with_starts(self, text: str) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Ids of plain text, and where each token starts in it, in characters, ascending.

        Of tokenizers that work on bytes it follows from the lengths of the tokens, in half the time. Where their
        normaliser changes the text's length, and of other tokenizers, it is asked for.
        """
        if self._token_bytes is not None:
            ids = self.encode(text)
            lengths = self._token_bytes[ids]
            content = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
            if int(lengths.sum()) == len(content):
                first = np.cumsum(lengths) - lengths  # bytes
                if text.isascii():
                    return ids, first
                numbers = np.cumsum((content & 0xC0) != 0x80) - 1  # of the characters, byte by byte
                return ids, numbers[first].astype(np.int64)
        ids, offsets = self.encode_with_offsets(text)
        starts = np.fromiter((start for start, _ in offsets), np.int64, len(offsets))
        return ids, np.maximum.accumulate(starts)

    def encode_text(self, text: str, tick: Callable[[int], None] = lambda done: None) -> EncodedText:
        """A long text, encoded once, of which parts are to be known. `tick`: see there."""
        return EncodedText(self, text, tick)

    def render_chat(self, messages: Sequence[Message], thinking: bool) -> str:
        """The prompt as text, up to where the answer begins; for showing, not for encoding.

        Raises ModelError without a chat template, DocumentError where the template refuses these messages.
        """
        return str(self._apply_template(_turns(messages), thinking))

    def _apply_template(self, turns: list[dict[str, str]] | list[list[dict[str, str]]], thinking: bool) -> object:
        """Of one conversation, or of a list of them, which takes less time than one by one."""
        if not self.has_chat_template:
            raise ModelError(
                f"{self.folder}: this model has no chat template, so it is a base model that cannot be asked; "
                "name its instruction-tuned form"
            )
        try:
            return self._hf.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
            )
        except (TemplateError, TypeError, ValueError, LookupError) as error:
            raise DocumentError("bad_messages", f"the model's chat template refuses these messages: {error}") from error

    def encode_chat(self, messages: Sequence[Message], thinking: bool) -> list[int]:
        """Ids of the prompt, up to where the answer begins. Contents cannot yield control tokens."""
        if any(map(self._is_risky, _texts(messages))):
            return self._encode_risky(messages, thinking)
        return _encode_ids(self._tokenizer, self.render_chat(messages, thinking))

    def encode_chats(self, chats: Sequence[Sequence[Message]], thinking: bool) -> list[list[int]]:
        """`encode_chat` of each.

        The tokenizer lets go of the interpreter once for all of them, not once for each: where other threads are busy,
        getting it back takes up to 5 ms every time.
        """
        plain = [number for number, messages in enumerate(chats) if not any(map(self._is_risky, _texts(messages)))]
        rendered = self._apply_template([_turns(chats[number]) for number in plain], thinking) if plain else []
        encoded = dict(zip(plain, _encode_all(self._tokenizer, cast("list[str]", rendered)), strict=True))
        return [
            encoded[number] if number in encoded else self._encode_risky(messages, thinking)
            for number, messages in enumerate(chats)
        ]

    def encode_chat_around(
        self, messages: Sequence[Message], thinking: bool, known: str, ids: array[int]
    ) -> array[int] | None:
        """`encode_chat`, where the ids of most of it are known; None where they do not help.

        known: a text that one of the messages holds, whose first and last character stand outside of a seam each.
        ids: of what is between these seams.
        """
        if any(map(self._is_risky, _texts(messages))):
            return None
        rendered = self.render_chat(messages, thinking)
        place = rendered.find(known)
        if place < 0:  # the template changes texts
            return None
        sides = [rendered[: place + 1], rendered[place + len(known) - 1 :]]
        before, after = _encode_all(self._tokenizer, sides)
        return array("I", before) + ids + array("I", after)

    def _encode_risky(self, messages: Sequence[Message], thinking: bool) -> list[int]:
        """Ids of a prompt whose contents hold the text of a control token."""
        texts = _texts(messages)
        stand_ins = self._stand_ins(texts)
        originals = str.maketrans({stand_in: text for text, stand_in in stand_ins.items()})
        hidden = [Message(*(self._hide(text, stand_ins) for text in (m.role, m.content))) for m in messages]
        return self._encode_template(self.render_chat(hidden, thinking), originals)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of the ids; bytes that are no UTF-8 become U+FFFD, ids that the tokenizer lacks become nothing."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def new_stream(self) -> TokenStream:
        """Turns one sequence's ids into text as they come."""
        return TokenStream(self._tokenizer)

    @property
    def has_chat_template(self) -> bool:
        return bool(self._hf.chat_template)

    @cached_property
    def supports_thinking(self) -> bool:
        """Whether the template makes a difference between thinking and not."""
        if not self.has_chat_template:
            return False
        probe = (Message("user", "?"),)
        return self.render_chat(probe, thinking=True) != self.render_chat(probe, thinking=False)

    def prompt_opens_think(self, prompt: str | Sequence[int]) -> bool:
        """Whether the prompt ends in an open think block, so that the answer begins inside it."""
        text = prompt if isinstance(prompt, str) else self.decode(prompt[-16:], skip_special_tokens=False)
        return text.rstrip().endswith("<think>")

    @cached_property
    def has_seams(self) -> bool:
        """Whether SEAM (model/seams.py) says where texts may be parted."""
        return not self._always_plain and has_seams(self._tokenizer)

    @cached_property
    def _token_bytes(self) -> npt.NDArray[np.int64] | None:
        """Bytes of each token by its id; None where tokens are made of something else."""
        if not isinstance(self._tokenizer.decoder, ByteLevel):
            return None
        lengths = np.zeros(self.vocab_size, np.int64)
        for token, id_ in self._tokenizer.get_vocab(with_added_tokens=False).items():
            lengths[id_] = len(token)  # each of its characters stands for a byte
        for id_, added in self._tokenizer.get_added_tokens_decoder().items():
            lengths[id_] = len(added.content.encode())
        return lengths

    @cached_property
    def _plain(self) -> Tokenizer:
        """A copy that knows no special tokens in text; made when first needed, which is seldom."""
        copy = Tokenizer.from_str(self._tokenizer.to_str())
        copy.encode_special_tokens = True
        return copy

    def _tokenizer_for(self, text: str) -> Tokenizer:
        return self._plain if self._is_risky(text) else self._tokenizer

    def _is_risky(self, text: str) -> bool:
        return self._always_plain or self._special_pattern.search(text) is not None

    def _stand_ins(self, texts: Iterable[str]) -> dict[str, str]:
        """For each special token's text a character that none of the texts holds."""
        used = set().union(*map(set, texts))
        free = (char for char in map(chr, range(PRIVATE_FIRST, PRIVATE_LAST + 1)) if char not in used)
        return dict(zip(self._special, free, strict=False))

    def _hide(self, text: str, stand_ins: dict[str, str]) -> str:
        return self._special_pattern.sub(lambda match: stand_ins[match[0]], text)

    def _encode_template(self, rendered: str, originals: dict[int, str]) -> list[int]:
        """Encode a rendered prompt whose special tokens are all the template's own.

        Between them stands plain text, in which `originals` puts back what the stand-ins replaced.
        """
        ids: list[int] = []
        position = 0
        for match in self._special_pattern.finditer(rendered):
            ids += self._encode_plain(rendered[position : match.start()], originals)
            ids.append(self._special[match[0]])
            position = match.end()
        return ids + self._encode_plain(rendered[position:], originals)

    def _encode_plain(self, text: str, originals: dict[int, str]) -> list[int]:
        return _encode_ids(self._plain, text.translate(originals))


class TokenStream:
    """Incremental decoding of one sequence, special tokens left out.

    What `push` and the closing `flush` return, joined, is `decode` of all ids. Characters appear when they are whole.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._num_characters = 0

    def push(self, token_id: int) -> str:
        """The text that this id completes; often a word, '' inside a character."""
        self._ids.append(token_id)
        text = self._stream.step(self._tokenizer, token_id) or ""
        self._num_characters += len(text)
        return text

    def flush(self) -> str:
        """What is still held back: the beginning of a character that never became whole."""
        text = self._tokenizer.decode(self._ids, skip_special_tokens=True)[self._num_characters :]
        self._num_characters += len(text)
        return text


def _texts(messages: Sequence[Message]) -> list[str]:
    return [text for message in messages for text in (message.role, message.content)]


def _turns(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _encode(tokenizer: Tokenizer, text: str) -> Encoding:
    """Ids and offsets."""
    with _half_characters_refused():
        return tokenizer.encode(text, add_special_tokens=False)


def _encode_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return _encode_all(tokenizer, [text])[0]


def _encode_all(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Ids alone, in under half the time: of a long text, most of it goes into the offsets."""
    with _half_characters_refused():
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


@contextmanager
def _half_characters_refused() -> Iterator[None]:
    try:
        yield
    except (TypeError, UnicodeEncodeError) as error:  # which of them, differs by version
        raise DocumentError("bad_text", "the text holds half a character (a lone surrogate)") from error


def _read_eos_token_ids(folder: Path, tokenizer_eos: int | None) -> frozenset[int]:
    """Those of generation_config.json, which lists all, else of config.json; and the tokenizer's own."""
    found: set[int] = set() if tokenizer_eos is None else {tokenizer_eos}
    for name in ("generation_config.json", "config.json"):
        try:
            value = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
        except FileNotFoundError:
            continue
        except (OSError, ValueError, AttributeError) as error:
            raise ModelError(f"{folder / name}: cannot be read: {error}") from error
        if value is not None:
            return frozenset(found | set(value if isinstance(value, list) else [value]))
    return frozenset(found)
