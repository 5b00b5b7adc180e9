"""How long answers will be, learned from those that are finished.

Answers are alike where the prompt's wording, the room for the answer and the length of the document are alike. For each
such kind the last WINDOW lengths are kept; a kind with few of them takes those of its wording alone.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Iterable

from qwen_batch.records import Request

WINDOW = 128  # lengths kept of a kind
MIN_LENGTHS = 8  # fewer say nothing
MAX_KINDS = 1024  # the longest unused are forgotten

Kind = tuple[str, int, int]  # wording, octave of max_tokens, octave of the prompt (-1: any)


class OutputEstimator:
    """Lengths in tokens."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Kind, _Lengths] = OrderedDict()
        self.num_learned = 0

    def learn(self, request: Request, num_output_tokens: int) -> None:
        """An answer to this request came to its end."""
        self.num_learned += 1
        for kind in _kinds(request):
            lengths = self._kinds.get(kind)
            if lengths is None:
                lengths = self._kinds[kind] = _Lengths()
                if len(self._kinds) > MAX_KINDS:
                    self._kinds.popitem(last=False)
            else:
                self._kinds.move_to_end(kind)
            lengths.add(num_output_tokens)

    def expected(self, request: Request) -> int:
        """The mean of what is known, max_tokens where nothing is."""
        max_tokens = request.sampling.max_tokens
        lengths = self._known(request)
        return max_tokens if lengths is None else min(max_tokens, math.ceil(lengths.mean))

    def enough(self, request: Request, share: float) -> int:
        """Tokens that suffice for `share` of the answers; max_tokens for 1 and where too little is known.

        Of n lengths the ceil((n + 1) * share)-th: a new one that is drawn alike is within it with at least that
        probability (Vovk et al. 2005, conformal prediction).
        """
        max_tokens = request.sampling.max_tokens
        if share <= 0.0:
            return 0
        lengths = self._known(request) if share < 1.0 else None
        return max_tokens if lengths is None else min(max_tokens, lengths.quantile(share, max_tokens))

    def _known(self, request: Request) -> _Lengths | None:
        for kind in _kinds(request):
            lengths = self._kinds.get(kind)
            if lengths is not None and len(lengths.ordered) >= MIN_LENGTHS:
                return lengths
        return None


class _Lengths:
    """The last WINDOW lengths."""

    __slots__ = ("_recent", "_sum", "ordered")

    def __init__(self) -> None:
        self._recent: deque[int] = deque()
        self.ordered: list[int] = []
        self._sum = 0

    def add(self, length: int) -> None:
        self._recent.append(length)
        insort(self.ordered, length)
        self._sum += length
        if len(self._recent) > WINDOW:
            oldest = self._recent.popleft()
            del self.ordered[bisect_left(self.ordered, oldest)]
            self._sum -= oldest

    @property
    def mean(self) -> float:
        return self._sum / len(self.ordered)

    def quantile(self, share: float, otherwise: int) -> int:
        rank = math.ceil((len(self.ordered) + 1) * share)
        return self.ordered[rank - 1] if rank <= len(self.ordered) else otherwise


def _kinds(request: Request) -> tuple[Kind, Kind]:
    room = request.sampling.max_tokens.bit_length()
    return (request.template, room, len(request.prompt_token_ids).bit_length()), (request.template, room, -1)


def padded_efficiency(lengths: Iterable[int], batch_size: int) -> float:
    """Useful tokens over computed ones, were sequences of these lengths sorted and run in padded batches."""
    ordered = sorted(lengths)
    batches = [ordered[at : at + batch_size] for at in range(0, len(ordered), batch_size)]
    padded = sum(batch[-1] * len(batch) for batch in batches)
    return sum(ordered) / padded if padded else 1.0
