"""What determines a result, as a hash: equal keys mean that nothing has to be computed again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from array import array
from functools import lru_cache

from qwen_batch.records import Request, SamplingParams

_SAMPLING_FIELDS = [field.name for field in dataclasses.fields(SamplingParams)]  # asdict copies deeply: slow


def request_key(request: Request, model_sha256: str, precision: str) -> str:
    """Key of a model call: weights, precision, prompt tokens and sampling. Hex.

    The request's id and priority are left out: they change when a call runs, not what it says.
    """
    sampling = (getattr(request.sampling, name) for name in _SAMPLING_FIELDS)
    values = (tuple(value) if isinstance(value, list) else value for value in sampling)
    head = _head(model_sha256, precision, *values)
    return hashlib.sha256(head + array("q", request.prompt_token_ids).tobytes()).hexdigest()


@lru_cache(maxsize=64, typed=True)  # the documents of a run ask for the same, with few exceptions
def _head(model_sha256: str, precision: str, *values: object) -> bytes:
    sampling = dict(zip(_SAMPLING_FIELDS, values, strict=True))
    return json.dumps([model_sha256, precision, sampling], sort_keys=True, default=list).encode()


def document_key(content: str, job_sha256: str, model_sha256: str, precision: str, metadata_json: str) -> str:
    """Key of a row: the document's content hash (or what went wrong with it), the job, the model, the precision."""
    return hashlib.sha256("\0".join((content, job_sha256, model_sha256, precision, metadata_json)).encode()).hexdigest()
