"""Job files: what is taken, and that what is wrong is named by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwen_batch.errors import JobError, UsageError
from qwen_batch.job import EngineSection, Job, job_schema, job_template, load_job, parse_size, sampling_from_record

MINIMAL = "name: small\nmodel: demo\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "jobs" / "job.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def message(folder: Path, text: str, *overrides: str) -> str:
    path = write(folder, text)
    with pytest.raises(JobError) as caught:
        load_job(path, overrides)
    return str(caught.value).replace(f"{path}", "job.yaml")


def test_short_forms(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, MINIMAL + "prompt: What is it?\ninput: [a.pdf, b/]\n"))
    assert job.model.name == "demo"
    assert job.prompt.question == "What is it?"
    assert job.input.paths == (str(tmp_path / "jobs/a.pdf"), str(tmp_path / "jobs/b"))


def test_paths_are_relative_to_the_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path,
        "name: small\nmodel: ./weights\ninput: {paths: [../in/*.pdf, -, /abs], password_file: pw}\n"
        "output: {dir: ../out/x}\n",
    )
    monkeypatch.chdir("/")
    job = load_job(path)
    base = tmp_path / "jobs"
    assert job.model.name == str(base / "weights")
    assert job.input.paths == (str(tmp_path / "in/*.pdf"), "-", "/abs")
    assert job.input.password_file == str(base / "pw")
    assert job.output.dir == str(tmp_path / "out/x")


def test_default_output_is_named_after_the_job(tmp_path: Path) -> None:
    assert load_job(write(tmp_path, MINIMAL)).output.dir == str(tmp_path / "jobs/out/small")


def test_hub_ids_are_left_alone(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, "name: a\nmodel: {name: Qwen/Qwen3-8B, revision: main}\n"))
    assert (job.model.name, job.model.revision) == ("Qwen/Qwen3-8B", "main")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24k", 24_000),
        ("24K", 24_000),
        ("1.5m", 1_500_000),
        ("2GiB", 2 * 1024**3),
        ("2 GB", 2_000_000_000),
        ("8Ki", 8192),
        ("1_000", 1000),
        ("10,000", 10_000),
        (7, 7),
    ],
)
def test_sizes(text: object, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "k", "24kk", "-1", "1.0001", "24 apples", "1e3"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_size(text)


def test_sizes_in_a_job(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, MINIMAL + "long_documents: {threshold: 24k, overlap: 1Ki}\n"))
    assert (job.long_documents.threshold, job.long_documents.overlap) == (24_000, 1024)


@pytest.mark.parametrize(("word", "value"), [("off", "off"), ("on", "on"), ("'off'", "off"), ("false", "off")])
def test_thinking_takes_the_word_that_yaml_makes_a_boolean(tmp_path: Path, word: str, value: str) -> None:
    assert load_job(write(tmp_path, MINIMAL + f"prompt: {{thinking: {word}}}\n")).prompt.thinking == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MINIMAL + "sampling:\n  max_token: 5\n",
            "job.yaml:4: sampling.max_token: unknown key; did you mean `max_tokens`?",
        ),
        (
            MINIMAL + "smapling: {}\n",
            "job.yaml:3: smapling: unknown key; did you mean `sampling`?",
        ),
        (
            MINIMAL + "model_name: x\nprompt: {zzz: 1}\n",
            "job.yaml:3: model_name: unknown key; did you mean `model`?\n"
            "job.yaml:4: prompt.zzz: unknown key; known here: question, system, template, thinking",
        ),
        ("model: demo\n", "job.yaml: name: this key is needed"),
        ("name: a b\nmodel: demo\n", "job.yaml:1: name: String should match pattern '^\\w[\\w.-]*$'"),
        (
            MINIMAL + "engine:\n\n  kv_memory: lots\n",
            "job.yaml:5: engine.kv_memory: 'lots' is not a size; write a number such as 24000, 24k or 2GiB",
        ),
        (
            MINIMAL + "long_documents:\n  threshold: 24 kilos\n",
            "job.yaml:4: long_documents.threshold: '24 kilos' is not a size; write a number such as 24000, 24k or 2GiB",
        ),
        (MINIMAL + "name: again\n", "job.yaml:3: name: this key stands here twice"),
        (
            MINIMAL + "sampling: {max_tokens: true, temperature: false}\n",
            "job.yaml:3: sampling.max_tokens: a number is wanted here, not true or false\n"
            "job.yaml:3: sampling.temperature: a number is wanted here, not true or false",
        ),
        (
            MINIMAL + "filter: {words: [ok, ' ']}\n",
            "job.yaml:3: filter.words: one of them is empty, and would be in every answer; leave it out",
        ),
        (
            MINIMAL + "filter: {patterns: ['']}\n",
            "job.yaml:3: filter.patterns: one of them is empty, and would be in every answer; leave it out",
        ),
        (
            MINIMAL + "output: {flush_seconds: .inf}\n",
            "job.yaml:3: output.flush_seconds: Input should be a finite number",
        ),
        (MINIMAL + "input: [a\n", "job.yaml:4: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("- a\n", "job.yaml: a job file is a mapping of keys such as `name:` and `model:`"),
        ("", "job.yaml: a job file is a mapping of keys such as `name:` and `model:`"),
        (
            MINIMAL + "prompt: {thinking: maybe}\n",
            "job.yaml:3: prompt.thinking: Input should be 'off' or 'on'",
        ),
    ],
)
def test_what_is_wrong_is_named_by_line(tmp_path: Path, text: str, expected: str) -> None:
    assert message(tmp_path, text) == expected


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"none\.yaml: no such job file; `qwen-batch init` writes one to start from"):
        load_job(tmp_path / "none.yaml")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(JobError, match=r"job\.yaml: cannot be read"):
        load_job(path)


def test_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "sampling: {max_tokens: 5, stop: [a]}\ninput: {paths: x}\n")
    job = load_job(
        path, ["sampling.max_tokens=9", "model.name=Qwen/Qwen3-8B", "prompt=Why?", "long_documents.threshold=24k"]
    )
    assert (job.sampling.max_tokens, job.sampling.stop) == (9, ("a",))
    assert job.model.name == "Qwen/Qwen3-8B"
    assert job.prompt.question == "Why?"
    assert job.long_documents.threshold == 24_000


@pytest.mark.parametrize(
    "text", ["Classify: good or bad", "42", "yes", "What? #1", "null", "[a]", "a, b", " spaced ", "- item"]
)
@pytest.mark.parametrize("key", ["prompt.question", "prompt", "prompt.system"])
def test_an_override_of_a_text_is_taken_as_it_stands(tmp_path: Path, key: str, text: str) -> None:
    job = load_job(write(tmp_path, MINIMAL), [f"{key}={text}"])
    assert (job.prompt.system if key == "prompt.system" else job.prompt.question) == text


def test_an_override_of_a_text_may_be_quoted_or_a_mapping(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    assert load_job(path, ['prompt.question="a\\nb"']).prompt.question == "a\nb"
    assert load_job(path, ["prompt={question: a, system: b}"]).prompt.system == "b"


def test_infinite_temperature_is_refused_by_line(tmp_path: Path) -> None:
    expected = "job.yaml:3: sampling.temperature: Input should be a finite number"
    assert message(tmp_path, MINIMAL + "sampling: {temperature: .inf}\n") == expected


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "sampling.max_tokens",
            "-o sampling.max_tokens: write it as key=value, for example -o sampling.max_tokens=200",
        ),
        ("=3", "-o =3: write it as key=value, for example -o sampling.max_tokens=200"),
        ("name.first=a", "-o name.first=a: name is a single value, it has no keys"),
        (
            "sampling.max_tokens=0",
            "-o sampling.max_tokens=0: sampling.max_tokens: Input should be greater than or equal to 1",
        ),
        ("sampling.temp=0", "-o sampling.temp=0: sampling.temp: unknown key; did you mean `temperature`?"),
        ("model[0]=x", "-o model[0]=x: model[0]: unknown key; did you mean `model`?"),
        ("int=x", "-o int=x: int: unknown key; did you mean `input`?"),
    ],
)
def test_bad_overrides_are_named(tmp_path: Path, override: str, expected: str) -> None:
    assert message(tmp_path, MINIMAL, override) == expected


def test_job_hash_follows_what_determines_answers(tmp_path: Path) -> None:
    base = load_job(write(tmp_path, MINIMAL)).sha256
    path = tmp_path / "jobs/job.yaml"

    def changed(override: str) -> bool:
        return load_job(path, [override]).sha256 != base

    assert all(map(changed, ["prompt.question=x", "sampling.seed=1", "clean.tables=false", "long_documents.overlap=1"]))
    assert not any(map(changed, ["name=x", "output.flush_rows=1", "engine.max_num_seqs=2", "input.paths=[a]"]))


def test_template_is_a_job(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, job_template()))
    assert job.name == "my-job"


def test_schema_describes_every_key_and_takes_the_template(tmp_path: Path) -> None:
    schema = job_schema()
    json.dumps(schema)
    assert set(schema["properties"]) == set(Job.model_fields)
    for definition in schema["$defs"].values():
        assert definition["additionalProperties"] is False
    assert schema["$defs"]["InputSection"]["properties"]["timeout_seconds"]["description"]


def test_sampling_of_a_record_goes_over_the_jobs(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, MINIMAL + "sampling: {temperature: 0.5, seed: 4}\n"))
    params = sampling_from_record(job.sampling, {"max_tokens": 7, "seed": 5})
    assert (params.max_tokens, params.temperature, params.seed) == (7, 0.5, 5)
    with pytest.raises(UsageError, match="top_p: Input should be less than or equal to 1"):
        sampling_from_record(job.sampling, {"top_p": 3})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "model", "x"]), inner),
        max_leaves=6,
    )
)
def test_anything_in_a_job_file_is_taken_or_refused_in_words(tmp_path_factory: Any, content: object) -> None:
    path = tmp_path_factory.mktemp("job") / "job.yaml"
    path.write_text(json.dumps(content), encoding="utf-8")
    problem = None
    try:
        load_job(path)
    except JobError as error:
        problem = str(error)
    assert problem is None or problem.startswith(f"{path}")


def test_what_changes_answers_is_part_of_the_asked_precision() -> None:
    asked = [EngineSection(), EngineSection(weights="int8"), EngineSection(deterministic=True)]
    assert [section.precision for section in asked] == ["auto", "auto-int8", "auto-deterministic"]
