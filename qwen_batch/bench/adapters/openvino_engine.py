"""OpenVINO GenAI's continuous batching, on a model in OpenVINO's form."""

from __future__ import annotations

from typing import Any

CACHE_GIB = 2
MAX_BATCHED_TOKENS = 1024
_PRECISIONS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


class OpenVinoEngine:
    """All requests at once, prefixes shared, long prompts cut."""

    def __init__(self, options: dict[str, Any]) -> None:
        import numpy
        import openvino
        import openvino_genai

        self._numpy, self._openvino, self._genai = numpy, openvino, openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GIB
        scheduler.max_num_batched_tokens = MAX_BATCHED_TOKENS
        scheduler.dynamic_split_fuse = True
        scheduler.enable_prefix_caching = True
        self._precision = _PRECISIONS[options["dtype"]]
        properties = {
            "INFERENCE_NUM_THREADS": options["threads"],
            "PERFORMANCE_HINT": "LATENCY",  # one stream over all threads; the pipeline batches by itself
            "INFERENCE_PRECISION_HINT": self._precision,
        }
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(options["model"], scheduler, "CPU", properties)

    def describe(self) -> str:
        return f"openvino-genai {self._genai.__version__}, {self._precision}"

    def run(self, prompts: list[list[int]], output_tokens: list[int]) -> list[list[int]]:
        configs = []
        for count in output_tokens:
            config = self._genai.GenerationConfig()
            config.max_new_tokens, config.ignore_eos, config.do_sample = count, True, False
            config.apply_chat_template = False
            configs.append(config)
        inputs = [self._openvino.Tensor(self._numpy.array([prompt], dtype=self._numpy.int64)) for prompt in prompts]
        done = sorted(self._pipeline.generate(inputs, configs), key=lambda result: result.m_request_id)
        return [list(result.m_generation_ids[0]) for result in done]


def load(options: dict[str, Any]) -> OpenVinoEngine:
    return OpenVinoEngine(options)
