"""Conversations, and the request lines of the OpenAI batch format.

https://platform.openai.com/docs/guides/batch: {"custom_id", "method": "POST", "url": "/v1/chat/completions", "body"}.
What we cannot honour is refused by name, never ignored, because an ignored option gives a wrong answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from qwen_batch.errors import DocumentError, UsageError
from qwen_batch.job import SamplingSection, sampling_from_record
from qwen_batch.records import Message

URL = "/v1/chat/completions"
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "repetition_penalty", "seed", "stop")
IGNORED = frozenset(("model", "messages", "user", "metadata", "store", "service_tier", "safety_identifier"))
# Options with the one value that asks for nothing.
HARMLESS: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "stream": (False,),
    "frequency_penalty": (0,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
}


def bad_record(message: str) -> NoReturn:
    raise DocumentError("bad_record", message)


def parse_messages(value: Any) -> tuple[Message, ...]:
    """A list of turns. Raises DocumentError bad_record, or unsupported where a turn holds more than text."""
    if not isinstance(value, list) or not value:
        bad_record('messages must be a list of {"role": ..., "content": ...} with at least one in it')
    return tuple(_parse_message(item, number) for number, item in enumerate(value, 1))


def _parse_message(item: Any, number: int) -> Message:
    if not isinstance(item, dict):
        bad_record(f'message {number} must be an object {{"role": ..., "content": ...}}')
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES:
        bad_record(f"message {number}: role must be one of {', '.join(ROLES)}")
    for key in ("tool_calls", "function_call", "audio"):
        if item.get(key):
            raise DocumentError("unsupported", f"message {number}: {key} cannot be honoured; leave it out")
    return Message(ROLES[role], _parse_content(item.get("content"), number))


def _parse_content(content: Any, number: int) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        bad_record(f"message {number}: content must be a string or a list of text parts")
    texts: list[str] = []
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            bad_record(f'message {number}: a part of content must be {{"type": "text", "text": ...}}')
        if part["type"] != "text":
            message = f"message {number}: content of type {part['type'][:40]} cannot be read; only text can"
            raise DocumentError("unsupported", message)
        if not isinstance(part.get("text"), str):
            bad_record(f"message {number}: text of a part must be a string")
        texts.append(part["text"])
    return "".join(texts)


def parse_body(record: Mapping[str, Any]) -> tuple[tuple[Message, ...], dict[str, object]]:
    """Messages and sampling of a batch line. Raises DocumentError bad_record or unsupported."""
    if record.get("method", "POST") != "POST":
        raise DocumentError("unsupported", "method must be POST")
    if record.get("url", URL) != URL:
        raise DocumentError("unsupported", f"url must be {URL}; nothing else is answered here")
    body = record.get("body")
    if not isinstance(body, dict):
        bad_record("body must be an object")
    sampling = _parse_sampling(body)
    return parse_messages(body.get("messages")), sampling


def _parse_sampling(body: Mapping[str, Any]) -> dict[str, object]:
    given = {key: value for key, value in body.items() if value is not None}
    sampling: dict[str, object] = {key: given.pop(key) for key in SAMPLING if key in given}
    limits = [given.pop(key) for key in ("max_completion_tokens", "max_tokens") if key in given]
    if limits:
        sampling["max_tokens"] = limits[0]
    for key, value in given.items():
        if key not in IGNORED and value not in HARMLESS.get(key, ()):
            raise DocumentError("unsupported", f"body.{key[:60]} cannot be honoured; leave it out")
    try:
        sampling_from_record(SamplingSection(), sampling)
    except UsageError as error:
        bad_record(f"body.{error}")
    return sampling
