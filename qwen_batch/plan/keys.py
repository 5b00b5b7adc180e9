"""What determines a result, as a hash: equal keys mean that nothing has to be computed again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from array import array

from qwen_batch.records import Request


def request_key(request: Request, model_sha256: str, precision: str) -> str:
    """Key of a model call: weights, precision, prompt tokens and sampling. Hex.

    The request's id and priority are left out: they change when a call runs, not what it says.
    """
    sampling = dataclasses.asdict(request.sampling)
    head = json.dumps([model_sha256, precision, sampling], sort_keys=True, default=list)
    return hashlib.sha256(head.encode() + array("q", request.prompt_token_ids).tobytes()).hexdigest()


def document_key(content: str, job_sha256: str, model_sha256: str, precision: str, metadata_json: str) -> str:
    """Key of a row: the document's content hash (or what went wrong with it), the job, the model, the precision."""
    return hashlib.sha256("\0".join((content, job_sha256, model_sha256, precision, metadata_json)).encode()).hexdigest()
