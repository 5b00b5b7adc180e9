"""Batch inference over a pile of documents, on one machine, with our own engine.

    from qwen_batch import Engine, SamplingParams
    engine = Engine.load("demo", dtype="bfloat16", device="cpu")
    completions = engine.generate(["Hello"], SamplingParams(max_tokens=16))

What it offers is fetched when it is first named, so that the command line answers without importing torch.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as that of typing, which costs a process 5 ms
if TYPE_CHECKING:
    from qwen_batch.engine import Engine
    from qwen_batch.records import Completion, Request, SamplingParams

__version__ = "0.1.0"
__all__ = ["Completion", "Engine", "Request", "SamplingParams", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Engine":
        from qwen_batch.engine import Engine

        return Engine
    if name in __all__:
        from qwen_batch import records

        return getattr(records, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
