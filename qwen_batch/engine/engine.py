"""The engine: requests in, completions out, many sequences in each step.

    engine = Engine.load("demo", dtype="bfloat16", device="cpu")
    for completion in engine.stream(requests): ...

One step is: schedule -> launch -> land: share full blocks, take the tokens, finish what is done. Where steps overlap,
a step lands after the next one was launched: the host works while the device computes, and learns one step late that a
sequence has ended. What was computed for it meanwhile is thrown away.
"""

from __future__ import annotations

import dataclasses
import logging
import operator
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from qwen_batch.engine.block_manager import BlockManager
from qwen_batch.engine.config import (
    EngineConfig,
    cpu_kv_bytes,
    lowered_window,
    resolve_backend,
    resolve_device,
    resolve_dtype,
    resolve_enough_blocks,
    resolve_max_model_len,
    resolve_num_blocks,
    resolve_overlap,
)
from qwen_batch.engine.estimate import padded_efficiency
from qwen_batch.engine.measure import StepTimes, step_times
from qwen_batch.engine.memory import CudaMeter, measure_kv_pool
from qwen_batch.engine.runner import Flight, Launched, Runner
from qwen_batch.engine.scheduler import Piece, Scheduler
from qwen_batch.engine.sequence import PENDING, failed
from qwen_batch.engine.sequence import Sequence as EngineSequence
from qwen_batch.engine.shrink import MAX_FAILURES, BatchLimits, is_out_of_memory
from qwen_batch.errors import UsageError
from qwen_batch.model.config import read_config
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.registry import resolve_model
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.records import Completion, FinishReason, Request, SamplingParams

Prompt = str | Sequence[int]
Begin = Callable[[Sequence[Request]], None]
logger = logging.getLogger(__name__)
FRAGMENTATION_STEPS = 32  # between looks at how full the blocks are


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Where the engine stands."""

    num_running: int
    num_waiting: int
    num_blocks: int
    num_used_blocks: int
    num_steps: int
    num_preemptions: int
    max_num_running: int  # sequences that ran at once
    max_fragmentation: float  # share of the slots of blocks in use that held no token, seen every few steps
    num_recomputed_tokens: int  # computed again after a preemption
    num_computed_tokens: int  # through the model, prompts and outputs
    num_cached_tokens: int  # prompt tokens that did not have to be computed
    num_discarded_tokens: int = 0  # computed besides, for sequences that had ended one step before
    device_seconds: float = 0.0  # in steps of the model, up to the tokens that came out


# Tokens of prefixes that nobody uses or waits for whose blocks are kept on a CPU while there are fresh ones. Without a
# bound a run touches all of its KV memory: 16 requests of 256 and 128 tokens took 0.4 s of 5.6 s longer in blocks that
# were never written before (`demo`, two Zen 4 cores, 2026-11-29).
IDLE_TOKENS = 4096


class Engine:
    """Runs requests on one device. Not thread-safe: one thread adds and steps."""

    def __init__(self, decoder: Decoder, tokenizer: ChatTokenizer, config: EngineConfig, backend: str) -> None:
        weights = decoder.weights
        has_graphs = config.cuda_graphs and decoder.use_triton and weights.device.type == "cuda"
        num_blocks = resolve_num_blocks(
            config, decoder.config, weights.dtype, partial(_kv_bytes, decoder, config, has_graphs)
        )
        cache = KVCache.allocate(
            decoder.config, num_blocks + has_graphs, config.block_size, weights.dtype, weights.device
        )
        self.tokenizer = tokenizer
        self.config = config
        self.backend = backend  # name of what computes between the matrix products
        self.max_model_len = lowered_window(config, decoder.config, num_blocks)
        if self.max_model_len < resolve_max_model_len(config.max_model_len, decoder.config):
            logger.warning(
                "the window is lowered from %s to %s tokens: beside the weights, memory holds keys and values of no "
                "more; longer documents are divided",
                f"{decoder.config.window:,}",
                f"{self.max_model_len:,}",
                extra={"event": "window_lowered"},
            )
        self.device = weights.device
        self.dtype = weights.dtype
        self._vocab_size = decoder.config.vocab_size
        graphs = None
        if has_graphs:
            from qwen_batch.engine.graphs import DecodeGraphs  # needs triton, which is not installed everywhere

            graphs = DecodeGraphs(decoder, cache, max_num_seqs=config.max_num_seqs, max_model_len=self.max_model_len)
        self._runner = Runner(decoder, cache, graphs)
        self.has_graphs = has_graphs  # decoding steps are replayed from CUDA graphs
        self._blocks = BlockManager(
            num_blocks,
            config.block_size,
            share_prefixes=config.share_prefixes,
            max_idle_blocks=-(-IDLE_TOKENS // config.block_size) if self.device.type == "cpu" else None,
        )
        self._scheduler = Scheduler(
            self._blocks,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            output_reserve=config.output_reserve,
            enough_blocks=resolve_enough_blocks(config, self.device),
        )
        self._limits = BatchLimits(self._scheduler)
        self._step_times: StepTimes | None = None  # where the step's size was chosen by them
        self._overlaps = resolve_overlap(config.overlap, self.device)
        self._flights: list[Flight] = []  # launched and not landed: one between steps where they overlap
        self._refused: list[Completion] = []
        self._active_ids: set[str] = set()
        self._lengths: Counter[int] = Counter()  # of finished sequences, in tokens
        self._max_fragmentation = 0.0
        self._num_steps = self._num_computed_tokens = self._num_cached_tokens = self._num_discarded_tokens = 0
        self._device_seconds = self._last_landed = 0.0

    @classmethod
    def load(cls, model: str = "demo", *, revision: str | None = None, **options: Any) -> Engine:
        """Load `demo`, a Hugging Face id or a folder. `options` are the fields of EngineConfig.

        Raises ModelError for the model, UsageError for the options.
        """
        unknown = sorted(set(options) - set(EngineConfig.__dataclass_fields__))
        if unknown:
            known = ", ".join(EngineConfig.__dataclass_fields__)
            raise UsageError(f"Engine.load: unknown option {unknown[0]!r}; known: {known}")
        files = resolve_model(model, revision, report=lambda message: None)
        return cls.load_folder(files.folder, EngineConfig.from_options(options))

    @classmethod
    def load_folder(cls, folder: Path, config: EngineConfig) -> Engine:
        """Load from a folder in Hugging Face form."""
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        device = resolve_device(config.device)
        dtype = resolve_dtype(config.dtype, device)
        native, backend = resolve_backend(config.backend, read_config(folder), dtype, device, config.block_size)
        decoder = Decoder.load(
            folder,
            dtype,
            device,
            native,
            use_triton=backend == "triton",
            deterministic=config.deterministic,
            int8=config.weights == "int8",
        )
        times = step_times(decoder, backend, config.block_size) if config.measure_steps else None
        if times is not None:
            config = dataclasses.replace(config, max_num_batched_tokens=times.choose(), measure_steps=False)
        engine = cls(decoder, ChatTokenizer.load(folder), config, backend)
        engine._step_times = times
        return engine

    @property
    def precision(self) -> str:
        """As stored with results, such as `bfloat16` or `bfloat16-int8-deterministic`."""
        parts = [str(self.dtype).removeprefix("torch.")]
        parts += ["int8"] * (self.config.weights == "int8") + ["deterministic"] * self.config.deterministic
        return "-".join(parts)

    def describe(self) -> str:
        """One line on what runs: device, backend, precision, memory."""
        threads = f", {torch.get_num_threads()} threads" if self.device.type == "cpu" else ""
        extras = ", CUDA graphs" * self.has_graphs + ", overlapping steps" * self._overlaps
        size, num_blocks = self.config.block_size, self._blocks.num_blocks
        given = f"{self.config.max_num_batched_tokens:,} tokens in a step"
        steps = given if self._step_times is None else self._step_times.describe()
        return (
            f"device {self.device.type}{threads}, backend {self.backend}{extras}, {self.precision}, "
            f"window {self.max_model_len:,} tokens, KV memory {num_blocks:,} blocks of {size} tokens, {steps}"
        )

    @property
    def has_unfinished(self) -> bool:
        return bool(self._active_ids)

    @property
    def num_waiting(self) -> int:
        """Requests that are in and have not begun, or were preempted."""
        return self._scheduler.num_waiting

    @property
    def wants_more(self) -> bool:
        """Whether planning is helped by more waiting requests; they may be added all the same."""
        return self._scheduler.wants_more

    @property
    def stats(self) -> EngineStats:
        return EngineStats(
            num_running=len(self._scheduler.running),
            num_waiting=self._scheduler.num_waiting,
            num_blocks=self._blocks.num_blocks,
            num_used_blocks=self._blocks.num_used,
            num_steps=self._num_steps,
            num_preemptions=self._scheduler.num_preemptions,
            max_num_running=self._scheduler.max_num_running,
            max_fragmentation=self._max_fragmentation,
            num_recomputed_tokens=self._scheduler.num_recomputed_tokens,
            num_computed_tokens=self._num_computed_tokens,
            num_cached_tokens=self._num_cached_tokens,
            num_discarded_tokens=self._num_discarded_tokens,
            device_seconds=self._device_seconds,
        )

    def report(self) -> str:
        """One line on how planning went so far."""
        stats = self.stats
        useful = stats.num_computed_tokens - stats.num_recomputed_tokens
        padded = padded_efficiency(self._lengths.elements(), self.config.max_num_seqs)
        return (
            f"{stats.num_steps:,} steps, at most {stats.max_num_running} requests at once; "
            f"{stats.num_computed_tokens:,} tokens computed ({useful / max(1, stats.num_computed_tokens):.1%} useful; "
            f"padded batches: {padded:.0%}), {stats.num_cached_tokens:,} shared; {stats.num_preemptions} preemptions; "
            f"at most {stats.max_fragmentation:.1%} of the KV slots in use empty"
        )

    def generate(
        self, prompts: Sequence[Prompt], sampling: SamplingParams | Sequence[SamplingParams] | None = None
    ) -> list[Completion]:
        """Complete the prompts (texts, taken as they are, or token ids) and return completions in their order.

        Raises UsageError when `sampling` is a list of another length.
        """
        if isinstance(prompts, str):
            raise UsageError("generate takes a list of prompts; for one, write generate([prompt])")
        params = SamplingParams() if sampling is None else sampling
        each = [params] * len(prompts) if isinstance(params, SamplingParams) else list(params)
        if len(each) != len(prompts):
            raise UsageError(f"generate: {len(prompts)} prompts but {len(each)} sampling parameters")
        requests = [
            Request(f"generate-{index}", self._token_ids(prompt), one)
            for index, (prompt, one) in enumerate(zip(prompts, each, strict=True))
        ]
        done = {completion.request_id: completion for completion in self.stream(requests)}
        return [done[request.request_id] for request in requests]

    def stream(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield each completion as it finishes. Requests are pulled as planning wants them, so they may be a generator.

        Before each step at most two batches come from a generator, which may take its time; a list is looked through
        as far as planning wants. Raises UsageError while other requests are unfinished: it would end with them.
        """
        if self.has_unfinished:
            raise UsageError(
                "stream and generate need the engine for themselves: collect what the loop around them is to ask next, "
                "or use add and step"
            )
        source = iter(requests)
        at_once = None if isinstance(requests, Sized) else 2 * self.config.max_num_seqs
        try:
            while True:
                for _ in range(at_once) if at_once else count():
                    request = next(source, None) if self.wants_more else None
                    if request is None:
                        break
                    self.add(request)
                if not self.has_unfinished:
                    return
                yield from self.step()
        finally:
            self.drop_all()

    def add(self, request: Request) -> None:
        """Take a request in. One that can never run comes back from the next step as an error completion.

        Raises UsageError when its id is that of a request in flight.
        """
        if request.request_id in self._active_ids:
            raise UsageError(f"request id {request.request_id!r} is already in flight")
        self._active_ids.add(request.request_id)
        refusal = self._refusal(request)
        if refusal is not None:
            self._refused.append(refusal)
            return
        stream = self.tokenizer.new_stream() if request.sampling.stop_strings else None
        self._scheduler.add(EngineSequence(request, stream))

    def step(self, begin: Begin | None = None) -> list[Completion]:
        """Compute one step and return what finished; where steps overlap, what finished in the step before.

        `begin` is called right before the device gets a step, with the requests whose computation it begins, which may
        be none, or begins again after their blocks were taken. What it raises goes through, and the step is lost.
        """
        done, self._refused = self._refused, []
        if self._flights and self._scheduler.may_preempt:
            done += self._land()  # a sequence that has ended meanwhile gives its blocks back, and none is taken out
        pieces = self._scheduler.schedule()
        if pieces:
            if begin is not None:
                begin([sequence.request for sequence in self._scheduler.started])
            done += self._launch(pieces)
            self._num_steps += 1
        while len(self._flights) > (1 if self._overlaps and pieces else 0):
            done += self._land()
        if pieces and self._num_steps % FRAGMENTATION_STEPS == 1:
            empty = self._blocks.fragmentation(self._scheduler.running)
            self._max_fragmentation = max(self._max_fragmentation, empty)
        self._active_ids.difference_update(completion.request_id for completion in done)
        return done

    def _launch(self, pieces: Sequence[Piece]) -> list[Completion]:
        """Hand a step to the device. Where that fails, the step before lands first, and is not to blame."""
        try:
            flight = self._runner.launch(pieces, self._flights[-1] if self._flights else None)
        except Exception as error:  # whatever it is, it must cost as few documents as it can
            done = [completion for _ in self._flights[:] for completion in self._land()]
            if self._scheduler.running:  # or else the step was of sequences that had ended, or lost their tokens
                done += self._recover(error, len(pieces))
            return done
        _advance(flight.pieces)
        self._flights.append(flight)
        return []

    def _land(self) -> list[Completion]:
        """Read the tokens of the step that was launched first, if one is under way; what finished in it."""
        if not self._flights:
            return []
        flight = self._flights[0]
        try:
            tokens = iter(flight.read())
        except Exception as error:  # of a kernel, say, that CUDA tells when it is waited for
            _take_back(self._flights)
            self._flights.clear()
            return self._recover(error, len(flight.pieces))
        del self._flights[0]
        self._limits.step_went_well()
        now = time.monotonic()
        self._device_seconds += now - max(flight.started, self._last_landed)  # not before the step before was done
        self._last_landed = now
        landed = [self._arrive(piece, next(tokens) if piece.reaches_end else None) for piece in flight.pieces]
        return [completion for completion in landed if completion is not None]

    def _recover(self, error: Exception, num_pieces: int) -> list[Completion]:
        """After a step that failed, with no other under way. All that run are computed again, or are given up."""
        return self._shrink() if is_out_of_memory(error) else self._search(error, num_pieces)

    def _shrink(self) -> list[Completion]:
        """After a step without enough memory: smaller steps, or the failure of the one that cannot be made smaller."""
        failures = []
        if self._limits.is_smallest:
            message = "the device has not enough memory for it, even by itself: shorten the document or its answer"
            failures = [
                self._finish(sequence, "error", ("out_of_memory", message)) for sequence in self._scheduler.running[:]
            ]
        else:
            self._limits.shrink()
            self._scheduler.preempt_all()
        self._runner.give_memory_back()
        return failures

    def _search(self, error: Exception, num_pieces: int) -> list[Completion]:
        """After a step that failed: fewer sequences in the next ones, or the failure of the one that is to blame.

        num_pieces: in the step; some may have ended since. Raises the error when it is the engine that is broken.
        """
        running = self._scheduler.running
        is_alone = len(running) == num_pieces == 1
        if is_alone and running[0].num_failures + 1 >= MAX_FAILURES:
            completion = self._give_up(running[0], error)
            self._check_alive(error)
            self._limits.found()
            return [completion]
        for sequence in running if is_alone else ():
            sequence.num_failures += 1
        self._limits.search(len(running), error)
        self._scheduler.preempt_all()
        return []

    def _give_up(self, sequence: EngineSequence, error: Exception) -> Completion:
        if sequence.token_ids[-1] == PENDING:  # of the step that is under way
            sequence.token_ids.pop()
        if sequence in self._scheduler.running:
            self._scheduler.finish(sequence)
        sequence.is_finished = True
        return failed(sequence.request, "generate_failed", f"the model failed on it: {error!r:.300}")

    def _check_alive(self, error: Exception) -> None:
        """Raise the error when not even a prompt of one token can be computed."""
        probe = EngineSequence(Request("probe", [min(self.tokenizer.eos_token_ids, default=0)]), None)
        if not self._blocks.num_available:
            self._blocks.unhold_all()
        self._blocks.grow(probe, 1)
        try:
            self._runner.run([Piece(probe, 1)])
        except Exception:
            raise error from None
        finally:
            self._blocks.release(probe)

    def drop_all(self) -> None:
        """Forget every request; blocks of shared prefixes stay for the next ones."""
        self._scheduler.drop_all()
        self._flights.clear()
        self._refused.clear()
        self._active_ids.clear()

    def forget_prefixes(self) -> None:
        """Drop shared prefixes that nothing uses, so that the next prompts are computed in full. For measurements."""
        self._blocks.evict_unused()

    def check_blocks(self) -> None:
        """Raise AssertionError when a block is lost or held twice. For tests."""
        self._blocks.check(self._scheduler.running)

    def _token_ids(self, prompt: Prompt) -> Sequence[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        try:
            return [operator.index(token) for token in prompt]
        except TypeError:
            raise UsageError(f"a prompt is a text or a list of token ids, not {prompt!r:.60}") from None

    def _refusal(self, request: Request) -> Completion | None:
        length, answer = len(request.prompt_token_ids), request.sampling.max_tokens
        room = min(self.max_model_len, self._blocks.num_blocks * self._blocks.block_size)
        if length == 0:
            return failed(request, "empty", "the prompt has no tokens")
        if min(request.prompt_token_ids) < 0 or max(request.prompt_token_ids) >= self._vocab_size:
            return failed(request, "bad_token", f"a token id is not in the model's vocabulary of {self._vocab_size:,}")
        if length + answer > room:
            return failed(
                request, "too_long", f"{length:,} prompt tokens and {answer:,} for the answer exceed {room:,} tokens"
            )
        return None

    def _arrive(self, piece: Launched, token: int | None) -> Completion | None:
        """Note what the step computed for one sequence; its completion when that ended it."""
        if piece.sequence.is_finished:
            self._num_discarded_tokens += piece.num_tokens
            return None
        self._num_computed_tokens += piece.num_tokens
        try:
            return self._accept(piece, token)
        except Exception as error:  # of the tokenizer, say: it is this sequence's alone
            return self._give_up(piece.sequence, error)

    def _accept(self, piece: Launched, token: int | None) -> Completion | None:
        sequence = piece.sequence
        if piece.reaches_end:
            if token is None:  # broken keys and values must not be shared, nor be left to the next
                self._runner.clear_blocks(sequence.block_table[len(sequence.nodes) :])
                del sequence.token_ids[piece.num_computed_tokens :]
                return self._finish(sequence, "error", ("not_finite", "the model's logits are not numbers"))
            sequence.token_ids[piece.num_computed_tokens : piece.num_computed_tokens + 1] = [token]
        self._blocks.share(sequence, piece.num_computed_tokens)
        num_output_tokens = piece.num_computed_tokens + 1 - sequence.num_prompt_tokens
        reason = self._finish_reason(sequence, token, num_output_tokens) if token is not None else None
        if reason is None:
            return None
        del sequence.token_ids[piece.num_computed_tokens + 1 :]  # the place of a token that nobody waits for
        return self._finish(sequence, reason, (None, None))

    def _finish_reason(self, sequence: EngineSequence, token: int, num_output_tokens: int) -> FinishReason | None:
        params = sequence.request.sampling
        if token in params.stop_token_ids or (token in self.tokenizer.eos_token_ids and not params.ignore_eos):
            return "stop"
        if sequence.stream is not None:
            sequence.stream_text += sequence.stream.push(token)
            if any(stop in sequence.stream_text for stop in params.stop_strings):
                return "stop"
        return "length" if num_output_tokens >= params.max_tokens else None

    def _finish(
        self, sequence: EngineSequence, reason: FinishReason, error: tuple[str | None, str | None]
    ) -> Completion:
        self._scheduler.finish(sequence)
        sequence.is_finished = True
        self._num_cached_tokens += sequence.num_cached_tokens
        self._lengths[len(sequence.token_ids)] += 1
        output = sequence.output_ids
        return Completion(
            request_id=sequence.request.request_id,
            token_ids=tuple(output),
            text=_cut_before_stop(self.tokenizer.decode(output), sequence.request.sampling),
            finish_reason=reason,
            num_prompt_tokens=sequence.num_prompt_tokens,
            num_cached_tokens=sequence.num_cached_tokens,
            num_preemptions=sequence.num_preemptions,
            error_type=error[0],
            error=error[1],
        )


def _kv_bytes(decoder: Decoder, config: EngineConfig, has_graphs: bool) -> int:
    device = decoder.weights.device
    if device.type != "cuda":
        return cpu_kv_bytes()
    return measure_kv_pool(decoder, config, CudaMeter(device), has_graphs=has_graphs)


def _advance(pieces: Iterable[Launched]) -> None:
    """Let sequences stand as they will when the step is done, so that the next one can be scheduled."""
    for piece in pieces:
        sequence = piece.sequence
        sequence.num_computed_tokens = piece.num_computed_tokens
        if piece.reaches_end and sequence.num_output_tokens + 1 < sequence.request.sampling.max_tokens:
            sequence.token_ids.append(PENDING)  # after the last token that it may have, nothing more is scheduled


def _take_back(flights: Sequence[Flight]) -> None:
    """Let sequences stand as before these steps, whose tokens are lost."""
    for piece in (piece for flight in reversed(flights) for piece in flight.pieces if not piece.sequence.is_finished):
        piece.sequence.num_computed_tokens = piece.num_computed_tokens - piece.num_tokens
        if piece.reaches_end:
            del piece.sequence.token_ids[piece.num_computed_tokens :]


def _cut_before_stop(text: str, params: SamplingParams) -> str:
    """The text before the first stop string in it, which is left out."""
    ends = [text.find(stop) for stop in params.stop_strings if stop in text]
    return text[: min(ends)] if ends else text
