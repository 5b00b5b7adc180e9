"""One command for a card: are the numbers right, how fast is the card itself, how near do we come.

    python -m qwen_batch.bench.device --output device.json [--shape Qwen3-32B] [--tiny]

Kernels and engine are checked against references on the device; matrix and copy rates are measured; then published
shapes with random weights run each workload, beside transformers one request at a time, in padded batches, and with
its continuous batching. What does not fit the time is listed as left out. Up to 256 sequences run at once, in steps
of at most 8,192 tokens; the engine's own defaults, 64 and 2,048, are not what is measured. `--tiny` tries all of it on
a CPU, in Triton's interpreter; its rates mean nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import gc
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import transformers

from qwen_batch.bench.arguments import positive_seconds, restart_interpreted
from qwen_batch.bench.device_baselines import baselines, expected_seconds, one_by_one, transformers_model
from qwen_batch.bench.device_checks import all_checks, attention_shares
from qwen_batch.bench.device_targets import SHAPE, describe, targets
from qwen_batch.bench.roofline import Rates, compute_bound_tokens, measure_rates
from qwen_batch.bench.shapes import SHAPES, TINY_WORK, WORK, Work, flops_per_request, random_weights, shape_config
from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.graphs import ladder
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.records import Request, SamplingParams

T = TypeVar("T")
# Share of the matrix rate at which a workload of ours is expected to run: for what still fits the time.
EXPECTED_SHARE = 0.25
SETTLING_STEPS, PROFILED_STEPS = 4, 24  # of a run: what is steady begins after the first


class _NoText:
    """In place of a tokenizer: random weights say nothing."""

    eos_token_ids: frozenset[int] = frozenset()

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return ""


@dataclasses.dataclass(slots=True)
class Bench:
    """One run of the command. Times are of time.monotonic."""

    device: torch.device
    tiny: bool
    output: Path  # written after each part
    deadline: float  # nothing begins after it
    end: float  # nothing is expected to run beyond it
    report: Callable[[str], None]
    result: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"left_out": [], "failed": [], "seconds": {}, "runs": []}
    )

    def run(self, shapes: Sequence[str], seed: int) -> bool:
        """Everything, in order of worth. Returns whether all checks passed, and nothing of ours failed."""
        self.result["device"] = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.result["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
        torch.manual_seed(seed)
        good = self._part("kernels", partial(self._kernels, seed))
        agrees = self._part("engine", partial(self._agreement, seed))
        rates = self._part("ceilings", self._ceilings)
        if rates is not None:
            self._part("attention", partial(self._attention, rates))
            for name in shapes:  # one after the other: both models at once would not fit
                self._part(f"{name}: engine", partial(self._shape, name, rates, seed))
                self._part(f"{name}: transformers", partial(self._baselines, name, rates, seed))
        if SHAPE in shapes:
            self.result["targets"] = targets(self.result)
            for target in self.result["targets"]:
                self.report(describe(target))
        for line in self.result["left_out"]:
            self.report(f"left out: {line}")
        for line in self.result["failed"]:
            self.report(f"FAILED {line}")
        return bool(good and agrees and not self.result["failed"])

    def save(self) -> None:
        """What was measured so far is not lost, whatever comes."""
        beside = self.output.with_name(self.output.name + ".part")
        beside.write_text(json.dumps(self.result, indent=2) + "\n", encoding="utf-8")
        beside.replace(self.output)

    def _part(self, name: str, run: Callable[[], T]) -> T | None:
        """One part; None where it does not fit the time, or fails, which must not end the others."""
        if self._late(name):
            return None
        began = time.monotonic()
        self.result["running"] = name
        self.save()
        try:
            return run()
        except Exception as error:
            self.result["failed"].append(f"{name}: {type(error).__name__}: {error}")
            return None
        finally:
            self._free()
            self.result["running"] = None
            self.result["seconds"][name] = time.monotonic() - began
            self.save()

    def _kernels(self, seed: int) -> bool:
        checks = [*all_checks(self.device, seed)]
        good = all(check.ok for check in checks)
        self.result["checks"] = [{**dataclasses.asdict(check), "ok": check.ok} for check in checks]
        self.report(f"kernels: {'all right' if good else 'WRONG: ' + str([c for c in checks if not c.ok])}")
        return good

    def _ceilings(self) -> Rates:
        rates = measure_rates(self.device, torch.bfloat16, *((256, 1 << 16) if self.tiny else (8192, 1 << 29)))
        self.result["ceilings"] = dataclasses.asdict(rates)
        tokens = self.result["compute_bound_tokens"] = compute_bound_tokens(rates, torch.bfloat16.itemsize)
        self.report(
            f"ceilings: {rates.matmul_flops / 1e12:.3g} TFLOP/s, {rates.copy_bytes / 1e12:.3g} TB/s; "
            f"a step is compute-bound from {tokens} tokens on"
        )
        return rates

    def _attention(self, rates: Rates) -> None:
        shares = self.result["attention"] = attention_shares(
            self.device, rates, *((2, 48) if self.tiny else (64, 8192))
        )
        self.report("attention: " + ", ".join(f"{what} {share:.1%}" for what, share in shares.items()))

    def _agreement(self, seed: int) -> bool:
        """Greedy float32 tokens of the tiny shape: torch's operations, and our kernels, whose steps must not wait and
        must not take more memory from run to run."""
        config = shape_config("tiny")
        weights = random_weights(config, torch.float32, self.device)
        prompts = Work("check", 4, 40, 3, shared_tokens=32).prompts(config.vocab_size, seed)
        params = SamplingParams(max_tokens=3, ignore_eos=True)
        answers, used = [], []
        for backend in ("torch", "triton"):
            engine = self._engine(Decoder(config, weights, use_triton=backend == "triton"), backend, 64)
            answers.append([completion.token_ids for completion in engine.generate(prompts, params)])
        if self.device.type == "cuda":
            for _ in range(3):  # all is compiled and captured by now
                answers.append(_without_a_wait(engine, prompts, params))
                used.append(torch.cuda.memory_allocated(self.device))
        agrees = all(answer == answers[0] for answer in answers)
        flat = len(set(used[1:])) <= 1
        self.result["engine_agrees_with_torch"], self.result["memory_is_flat"] = agrees, flat
        words = "agrees" if agrees else "DOES NOT AGREE", "flat" if flat else "NOT FLAT"
        self.report("engine: {} with torch, memory {}".format(*words))
        return agrees and flat

    def _engine(self, decoder: Decoder, backend: str, max_model_len: int) -> Engine:
        options = EngineConfig(
            max_model_len=max_model_len, max_num_seqs=4 if self.tiny else 256, max_num_batched_tokens=8192,
            num_blocks=64 if max_model_len <= 64 else None, overlap=True,
        )  # fmt: skip
        return Engine(decoder, cast(ChatTokenizer, _NoText()), options, backend)

    def _shape(self, name: str, rates: Rates, seed: int) -> None:
        config = shape_config(name)
        dtype = torch.float32 if self.tiny else torch.bfloat16
        works = TINY_WORK if self.tiny else WORK
        decoder = Decoder(config, random_weights(config, dtype, self.device), use_triton=True)
        longest = max(work.prompt_tokens + work.output_tokens for work in works)
        engine = self._engine(decoder, "triton", 64 if self.tiny else longest)
        self.report(f"{name}: {engine.describe()}")
        for work in works:
            ceiling = rates.matmul_flops / flops_per_request(config, work)
            if self._late(f"{name} {work.name}: engine", work.num_requests / ceiling / EXPECTED_SHARE):
                continue
            try:
                self._work(name, engine, work, ceiling, work.prompts(config.vocab_size, seed))
                if work.name == "seed" and not self._late(f"{name}: profile"):
                    self._profile(name, engine, work.prompts(config.vocab_size, seed + 1), work)
            except Exception as error:  # the other workloads of the shape are worth having
                self.result["failed"].append(f"{name} {work.name}: engine: {type(error).__name__}: {error}")
                engine.drop_all()

    def _work(self, name: str, engine: Engine, work: Work, ceiling: float, prompts: list[list[int]]) -> None:
        _warm_up(engine, prompts, work.shared_tokens)
        rate = len(prompts) / self._time(partial(engine.generate, prompts, _forced(work)))
        self._note(name, work, "qwen-batch", rate, ceiling)

    def _baselines(self, name: str, rates: Rates, seed: int) -> None:
        """transformers on the same shape."""
        model = transformers_model(name, torch.float32 if self.tiny else torch.bfloat16, self.device)
        config = shape_config(name)
        for work in TINY_WORK if self.tiny else WORK:
            prompts = work.prompts(config.vocab_size, seed)
            ceiling = rates.matmul_flops / flops_per_request(config, work)
            for label, count, run in baselines(work, tiny=self.tiny):
                few, what = prompts[:count], f"{name} {work.name}: {label}"
                if self._late(what, expected_seconds(config, work, count, rates, one_by_one=run is one_by_one)):
                    continue
                try:
                    run(model, few[:1], 2)
                    rate = len(few) / self._time(partial(run, model, few, work.output_tokens))
                except Exception as error:  # a baseline that cannot run here must not end the run
                    self.result["left_out"].append(f"{what}: {type(error).__name__}: {error}")
                    continue
                self._note(name, work, label, rate, ceiling)

    def _profile(self, name: str, engine: Engine, prompts: list[list[int]], work: Work) -> None:
        """Where the time goes in the middle of a run: kernels by name, and the share of it in which the device is busy.

        All kernels stand in one stream, so their times add up. On a card nothing but them is recorded: what the host
        does would take time of its own, and torch's operations carry the times of their kernels once more.
        """
        is_cuda = self.device.type == "cuda"
        activity = torch.profiler.ProfilerActivity.CUDA if is_cuda else torch.profiler.ProfilerActivity.CPU
        engine.forget_prefixes()
        for index, prompt in enumerate(prompts):
            engine.add(Request(str(index), prompt, _forced(work)))
        _some_steps(engine, 1 if self.tiny else SETTLING_STEPS)
        self._wait()  # what is under way is none of the steps that are counted
        with torch.profiler.profile(activities=[activity]) as profile:
            wall = self._time(partial(_some_steps, engine, 2 if self.tiny else PROFILED_STEPS))
        engine.drop_all()
        busy = {
            event.key: (event.self_device_time_total if is_cuda else event.self_cpu_time_total) / 1e6
            for event in profile.key_averages()
            if (event.device_type.name != "CPU") == is_cuda
        }
        share = sum(busy.values()) / wall
        table = sorted(((took, key) for key, took in busy.items() if took > 0), reverse=True)
        self.result["runs"].append(
            {"shape": name, "profile": [{"kernel": key, "seconds": took} for took, key in table[:20]],
             "busy_share": share, "profiled_seconds": wall}
        )  # fmt: skip
        self.report(f"{name}: device busy {share:.1%} of {wall:.2f} s in the middle of {work.name}; of that:")
        for took, key in table[:10]:
            self.report(f"  {took / sum(busy.values()):6.1%} {took:9.4f} s  {key[:90]}")

    def _note(self, name: str, work: Work, who: str, rate: float, ceiling: float) -> None:
        tokens = rate * (work.prompt_tokens + work.output_tokens)
        allocated = torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else None
        self.result["runs"].append(
            {"shape": name, "work": dataclasses.asdict(work), "who": who, "requests_per_second": rate,
             "allocated_bytes": allocated, "tokens_per_second": tokens, "ceiling_requests_per_second": ceiling,
             "share_of_ceiling": rate / ceiling}
        )  # fmt: skip
        self.report(
            f"{name:12} {work.name:8} {who:33} {rate:9.3f} req/s {tokens:10.0f} tokens/s "
            f"{rate / ceiling:7.1%} of ceiling"
        )

    def _time(self, run: Callable[[], object]) -> float:
        """Seconds of one call, the device's work included."""
        self._wait()
        start = time.perf_counter()
        run()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _free(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _late(self, what: str, expected_seconds: float = 0.0) -> bool:
        """Whether this must not begin any more, which is noted."""
        now = time.monotonic()
        late = now > self.deadline or now + expected_seconds > self.end
        if late:
            self.result["left_out"].append(f"{what}: out of time (it would take about {expected_seconds:.0f} s)")
        return late


def _without_a_wait(engine: Engine, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[tuple[int, ...]]:
    """Tokens of steps in which torch raises RuntimeError where the host would wait for the device."""
    engine.forget_prefixes()
    for index, prompt in enumerate(prompts):
        engine.add(Request(str(index), prompt, params))
    done = {}
    torch.cuda.set_sync_debug_mode("error")
    try:
        while engine.has_unfinished:
            done.update({completion.request_id: completion.token_ids for completion in engine.step()})
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return [done[str(index)] for index in range(len(prompts))]


def _warm_up(engine: Engine, prompts: Sequence[list[int]], shared_tokens: int) -> None:
    """Compile the kernels, and capture every graph: as many short requests as a step holds, which end so that each size
    of the ladder is met."""
    engine.generate(prompts[:2], SamplingParams(max_tokens=2, ignore_eos=True))
    if engine.has_graphs:
        count, sizes = min(engine.config.max_num_seqs, len(prompts)), ladder(engine.config.max_num_seqs)
        lengths = [2 + sum(size > index for size in sizes) for index in range(count)]
        engine.generate(
            [prompt[: shared_tokens + 1] for prompt in prompts[:count]],
            [SamplingParams(max_tokens=length, ignore_eos=True) for length in lengths],
        )
    engine.forget_prefixes()


def _forced(work: Work) -> SamplingParams:
    return SamplingParams(max_tokens=work.output_tokens, ignore_eos=True)


def _some_steps(engine: Engine, count: int) -> None:
    for _ in range(count):
        if engine.has_unfinished:
            engine.step()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every check passed and no part failed, else 1; a part that hangs ends it by SIGALRM."""
    parser = argparse.ArgumentParser(
        prog="python -m qwen_batch.bench.device", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="default: 32B, 0.6B, 8B, in this order")
    parser.add_argument("--tiny", action="store_true", help="a trial on a CPU")
    parser.add_argument(
        "--budget-seconds", type=positive_seconds, default=420.0, help="nothing new begins later than this"
    )
    parser.add_argument("--limit-seconds", type=positive_seconds, default=475.0, help="what still runs then is ended")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.output.is_dir() or not options.output.parent.is_dir():
        parser.error(f"--output {options.output}: name a file in a folder that exists")
    if options.tiny:
        restart_interpreted("qwen_batch.bench.device", arguments)
    device = torch.device("cuda", 0) if torch.cuda.is_available() and not options.tiny else torch.device("cpu")
    if device.type != "cuda" and not options.tiny:
        parser.error("torch sees no CUDA device here; --tiny tries the command on a CPU")
    began = time.monotonic()
    bench = Bench(
        device,
        options.tiny,
        options.output,
        began + options.budget_seconds,
        began + options.limit_seconds,
        lambda line: print(line, flush=True),
    )
    shapes = options.shape or (["tiny"] if options.tiny else ["Qwen3-32B", "Qwen3-0.6B", "Qwen3-8B"])
    # The kernel's timer and not a thread of Python's: a device that hangs may hold the interpreter. It says where, and
    # then the signal's own action ends the process.
    faulthandler.register(signal.SIGALRM, all_threads=False, chain=True)
    signal.setitimer(signal.ITIMER_REAL, options.limit_seconds)
    try:
        good = bench.run(shapes, options.seed)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        bench.save()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
