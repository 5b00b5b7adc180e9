"""What determines a result, as a hash: equal keys mean that nothing has to be computed again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from array import array

from qwen_batch.records import Request, SamplingParams

_SAMPLING_FIELDS = [field.name for field in dataclasses.fields(SamplingParams)]  # asdict copies deeply: slow


def request_key(request: Request, model_sha256: str, precision: str) -> str:
    """Key of a model call: weights, precision, prompt tokens and sampling. Hex.

    The request's id and priority are left out: they change when a call runs, not what it says.
    """
    known = _last_head  # the documents of a run ask for the same, with few exceptions
    if known is None or known[0] is not request.sampling or known[1:3] != (model_sha256, precision):
        known = _make_head(request.sampling, model_sha256, precision)
    return hashlib.sha256(known[3] + array("q", request.prompt_token_ids).tobytes()).hexdigest()


_last_head: tuple[SamplingParams, str, str, bytes] | None = None  # replaced as a whole: threads may share it


def _make_head(sampling: SamplingParams, model_sha256: str, precision: str) -> tuple[SamplingParams, str, str, bytes]:
    global _last_head
    values = {name: getattr(sampling, name) for name in _SAMPLING_FIELDS}
    head = json.dumps([model_sha256, precision, values], sort_keys=True, default=list).encode()
    _last_head = sampling, model_sha256, precision, head
    return _last_head


def document_key(content: str, job_sha256: str, model_sha256: str, precision: str, metadata_json: str) -> str:
    """Key of a row: the document's content hash (or what went wrong with it), the job, the model, the precision."""
    return hashlib.sha256("\0".join((content, job_sha256, model_sha256, precision, metadata_json)).encode()).hexdigest()
