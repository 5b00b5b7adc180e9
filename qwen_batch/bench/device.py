"""One command for a card: are the numbers right, how fast is the card itself, how near do we come.

    python -m qwen_batch.bench.device --output device.json [--shape Qwen3-32B] [--tiny] [--budget-seconds 420]

Kernels and engine are checked against references on the device; matrix and copy rates are measured; then published
shapes with random weights run each workload, beside transformers one request at a time, in padded batches, and with
its continuous batching. What does not fit the time is listed as left out. `--tiny` tries all of it on a CPU, in
Triton's interpreter (TRITON_INTERPRET=1); its rates mean nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import transformers

from qwen_batch.bench.device_checks import all_checks, attention_shares
from qwen_batch.bench.roofline import compute_bound_tokens, measure_rates
from qwen_batch.bench.shapes import SHAPES, TINY_WORK, WORK, Work, flops_per_request, random_weights, shape_config
from qwen_batch.engine import Engine, EngineConfig
from qwen_batch.engine.graphs import ladder
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.tokenizer import ChatTokenizer
from qwen_batch.records import Request, SamplingParams


class _NoText:
    """In place of a tokenizer: random weights say nothing."""

    eos_token_ids: frozenset[int] = frozenset()

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return ""


@dataclasses.dataclass(slots=True)
class Bench:
    """One run of the command."""

    device: torch.device
    tiny: bool
    deadline: float  # of time.monotonic
    report: Callable[[str], None]
    result: dict[str, Any] = dataclasses.field(default_factory=lambda: {"left_out": [], "runs": []})

    def run(self, shapes: Sequence[str], seed: int) -> bool:
        """Everything, in order of worth. Returns whether all checks passed."""
        self.result["device"] = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.result["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
        torch.manual_seed(seed)
        checks = [*all_checks(self.device, seed)]
        good = all(check.ok for check in checks)
        self.result["checks"] = [{**dataclasses.asdict(check), "ok": check.ok} for check in checks]
        agree = self._agreement(seed)
        self.result["engine_agrees_with_torch"] = agree
        self.report(f"checks: {'all kernels right' if good else 'WRONG: ' + str(checks)}; engine agrees: {agree}")
        ceilings = measure_rates(self.device, torch.bfloat16, *((256, 1 << 16) if self.tiny else (8192, 1 << 29)))
        self.result["ceilings"] = dataclasses.asdict(ceilings)
        tokens = self.result["compute_bound_tokens"] = compute_bound_tokens(ceilings, torch.bfloat16.itemsize)
        self.report(
            f"ceilings: {ceilings.matmul_flops / 1e12:.3g} TFLOP/s, {ceilings.copy_bytes / 1e12:.3g} TB/s; "
            f"a step is compute-bound from {tokens} tokens on"
        )
        shares = attention_shares(self.device, ceilings, *((2, 48) if self.tiny else (64, 8192)))
        self.result["attention"] = shares
        self.report(f"attention: {shares}")
        for name in shapes:
            for run in (self._shape, self._baselines):  # one after the other: both models at once would not fit
                if not self._late(f"{name}: {run.__name__.strip('_')}"):
                    run(name, ceilings.matmul_flops, seed)
                self._free()
        return good and agree

    def _agreement(self, seed: int) -> bool:
        """Greedy float32 tokens of the tiny shape: torch's operations, and our kernels, whose steps must not wait."""
        config = shape_config("tiny")
        weights = random_weights(config, torch.float32, self.device)
        prompts = Work("check", 4, 40, 3, shared_tokens=32).prompts(config.vocab_size, seed)
        answers = []
        for backend in ("torch", "triton"):
            engine = self._engine(Decoder(config, weights, use_triton=backend == "triton"), backend, 64)
            params = SamplingParams(max_tokens=3, ignore_eos=True)
            answers.append([completion.token_ids for completion in engine.generate(prompts, params)])
            if backend == "triton" and self.device.type == "cuda":  # all is compiled and captured by now
                answers.append(_without_a_wait(engine, prompts, params))
        return all(answer == answers[0] for answer in answers)

    def _engine(self, decoder: Decoder, backend: str, max_model_len: int) -> Engine:
        options = EngineConfig(
            max_model_len=max_model_len, max_num_seqs=4 if self.tiny else 256, max_num_batched_tokens=8192,
            num_blocks=64 if max_model_len <= 64 else None, overlap=True,
        )  # fmt: skip
        return Engine(decoder, cast(ChatTokenizer, _NoText()), options, backend)

    def _shape(self, name: str, matmul_flops: float, seed: int) -> None:
        config = shape_config(name)
        dtype = torch.float32 if self.tiny else torch.bfloat16
        works = TINY_WORK if self.tiny else WORK
        decoder = Decoder(config, random_weights(config, dtype, self.device), use_triton=True)
        longest = max(work.prompt_tokens + work.output_tokens for work in works)
        engine = self._engine(decoder, "triton", 64 if self.tiny else longest)
        self.report(f"{name}: {engine.describe()}")
        for work in works:
            if self._late(f"{name} {work.name}: engine"):
                continue
            prompts = work.prompts(config.vocab_size, seed)
            _warm_up(engine, prompts, work.shared_tokens)
            rate = len(prompts) / self._time(partial(engine.generate, prompts, _forced(work)))
            self._note(name, work, "qwen-batch", rate, matmul_flops / flops_per_request(config, work))
        if not self._late(f"{name}: profile"):
            self._profile(name, engine, works[0].prompts(config.vocab_size, seed + 1), works[0])

    def _baselines(self, name: str, matmul_flops: float, seed: int) -> None:
        """transformers on the same shape."""
        works = TINY_WORK if self.tiny else WORK
        model = _transformers_model(name, torch.float32 if self.tiny else torch.bfloat16, self.device)
        for work in works:
            prompts = work.prompts(SHAPES[name]["vocab_size"], seed)
            ceiling = matmul_flops / flops_per_request(shape_config(name), work)
            batch = 2 if self.tiny else 1 if work.prompt_tokens > 8000 else 16
            for label, few, run in (
                ("transformers one by one", prompts[:2], _one_by_one),
                ("transformers padded batch", prompts[:batch], _padded),
                ("transformers continuous batching", prompts[: 4 * batch], _continuous),
            ):
                if self._late(f"{name} {work.name}: {label}"):
                    continue
                try:
                    run(model, few[:1], 2)
                    rate = len(few) / self._time(partial(run, model, few, work.output_tokens))
                except Exception as error:  # a baseline that cannot run here must not end the run
                    self.result["left_out"].append(f"{name} {work.name}: {label}: {type(error).__name__}: {error}")
                    continue
                self._note(name, work, label, rate, ceiling)

    def _profile(self, name: str, engine: Engine, prompts: list[list[int]], work: Work) -> None:
        """Where the time goes: kernels by name, and the share of the time in which the device is busy."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profile:
            wall = self._time(
                partial(engine.generate, prompts[:64], _forced(dataclasses.replace(work, output_tokens=4)))
            )
        busy = {event.key: event.self_device_time_total / 1e6 for event in profile.key_averages()}
        table = sorted(((took, key) for key, took in busy.items() if took > 0), reverse=True)
        self.result["runs"].append(
            {"shape": name, "profile": [{"kernel": key, "seconds": took} for took, key in table[:20]],
             "busy_share": sum(busy.values()) / wall}
        )  # fmt: skip
        self.report(f"{name}: device busy {sum(busy.values()) / wall:.1%} of a run with 4 tokens out; of that:")
        for took, key in table[:10]:
            self.report(f"  {took / sum(busy.values()):6.1%} {took:9.4f} s  {key[:90]}")

    def _note(self, name: str, work: Work, who: str, rate: float, ceiling: float) -> None:
        tokens = rate * (work.prompt_tokens + work.output_tokens)
        self.result["runs"].append(
            {"shape": name, "work": dataclasses.asdict(work), "who": who, "requests_per_second": rate,
             "tokens_per_second": tokens, "ceiling_requests_per_second": ceiling, "share_of_ceiling": rate / ceiling}
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

    def _late(self, what: str) -> bool:
        late = time.monotonic() > self.deadline
        if late:
            self.result["left_out"].append(f"{what}: out of time")
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


def _transformers_model(name: str, dtype: torch.dtype, device: torch.device) -> Any:
    """The shape in transformers, its weights drawn on the device and never on the host."""
    config = transformers.Qwen3Config(**{key: value for key, value in SHAPES[name].items() if key != "model_type"})
    with torch.device("meta"):
        model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    model = model.to_empty(device=device).eval()
    if config.tie_word_embeddings:
        model.tie_weights()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.02) if weight.dim() > 1 else weight.fill_(1.0)
        rotary = model.model.rotary_emb
        exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
        rotary.inv_freq = 1.0 / SHAPES[name]["rope_theta"] ** exponents
        rotary.original_inv_freq = rotary.inv_freq
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def _one_by_one(model: Any, prompts: Sequence[Sequence[int]], output_tokens: int) -> None:
    for prompt in prompts:
        _padded(model, [prompt], output_tokens)


def _padded(model: Any, prompts: Sequence[Sequence[int]], output_tokens: int) -> None:
    ids = torch.tensor([list(prompt) for prompt in prompts], device=model.device)
    with torch.inference_mode():
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=output_tokens, do_sample=False)


def _continuous(model: Any, prompts: Sequence[Sequence[int]], output_tokens: int) -> None:
    if model.device.type != "cuda":
        raise RuntimeError("is made for CUDA")
    config = transformers.GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=output_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    done = model.generate_batch(inputs=[list(prompt) for prompt in prompts], generation_config=config)
    if len(done) != len(prompts):
        raise RuntimeError(f"answered {len(done)} of {len(prompts)} requests")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every check passed."""
    parser = argparse.ArgumentParser(
        prog="python -m qwen_batch.bench.device", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="default: 32B, 0.6B, 8B, in this order")
    parser.add_argument("--tiny", action="store_true", help="a trial on a CPU")
    parser.add_argument("--budget-seconds", type=float, default=420.0, help="nothing new begins later than this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    device = torch.device("cuda", 0) if torch.cuda.is_available() and not options.tiny else torch.device("cpu")
    if device.type != "cuda" and not options.tiny:
        parser.error("torch sees no CUDA device here; --tiny tries the command on a CPU")
    bench = Bench(device, options.tiny, time.monotonic() + options.budget_seconds, lambda line: print(line, flush=True))
    shapes = options.shape or (["tiny"] if options.tiny else ["Qwen3-32B", "Qwen3-0.6B", "Qwen3-8B"])
    try:
        good = bench.run(shapes, options.seed)
    finally:  # what was measured before something broke is not lost
        options.output.write_text(json.dumps(bench.result, indent=2) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
