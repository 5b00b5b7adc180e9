"""Commands and flags -> calls; exceptions -> exit codes; nothing else.

Everything heavy is imported by the command that needs it, so that `--help` and `schema` answer at once.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qwen_batch import __version__
from qwen_batch.errors import QwenBatchError, UsageError
from qwen_batch.terminal import take_any_text, visible

LEAST_MEMORY_MIB = 128  # of address space; what reads a page takes that much

if TYPE_CHECKING:
    from qwen_batch.job import Job

app = typer.Typer(
    name="qwen-batch",
    help="Ask one question of every document in a pile, on this machine, and get a Parquet table.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
model_app = typer.Typer(help="Fetch and list models.", no_args_is_help=True)
app.add_typer(model_app, name="model")


class LogFormat(StrEnum):
    """Form of the log lines on standard error."""

    text = "text"
    json = "json"


class OcrName(StrEnum):
    """As a job's `input.ocr`."""

    auto = "auto"
    all = "all"
    off = "off"


class DTypeName(StrEnum):
    """Names of precisions; auto is the engine's choice."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class DeviceName(StrEnum):
    """Names of devices; auto is CUDA where there is some."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="Job file (YAML).", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("-o", "--set", metavar="KEY=VALUE", help="Override a key of the job; repeatable.")
]


def main() -> None:
    """Entry point: run the command line; an error that we raise on purpose becomes one message and its exit code."""
    take_any_text()
    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # `| head`: click and rich make a plain 1 of it
            sys.exit(128 + signal.SIGPIPE)
        raise
    except QwenBatchError as error:
        if sys.stdout is not None:  # it is None where the caller has closed it
            sys.stdout.flush()
        if sys.stderr is not None:
            print(f"qwen-batch: {visible(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qwen-batch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    job: JobArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUTS]...",
            help="Files, folders or globs instead of the job's; `-` is JSONL on standard input.",
            show_default=False,
        ),
    ] = None,
    overrides: SetOption = None,
    output: Annotated[
        str | None, typer.Option(metavar="DIR", help="Output folder; `-` writes rows as JSON lines to standard output.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N documents.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute everything again.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute failed documents again.")] = False,
    metrics_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prometheus text file, rewritten while the run lasts.")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Errors only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="More detail.")] = False,
    log_format: Annotated[LogFormat, typer.Option(help="Form of the log lines.")] = LogFormat.text,
) -> None:
    """Run a job: every input document becomes one row of the table.

    Exit code 0: every row ok or skipped; 1: the run could not go on; 2: usage or job file; 3: finished, with failed or
    flagged rows; 75: another run holds the lock; 130, 143, 129: stopped by a signal, after saving.
    """
    from qwen_batch.operate.log import configure_logging
    from qwen_batch.operate.summary import format_summary
    from qwen_batch.pipeline import RunOptions, run_job

    logger = configure_logging(quiet=quiet, verbose=verbose, log_format=log_format.value)
    options = RunOptions(
        inputs=tuple(inputs or ()),
        to_stdout=output == "-",
        limit=limit,
        fresh=fresh,
        retry_failed=retry_failed,
        quiet=quiet,
        metrics_file=str(metrics_file) if metrics_file is not None else None,
    )
    summary = run_job(_load_job(job, overrides, output), options)
    if log_format is LogFormat.json:
        logger.info("the run is done", extra={"event": "summary", **dataclasses.asdict(summary)})
    elif not quiet:
        print(visible(format_summary(summary)), file=sys.stderr)
    raise typer.Exit(summary.exit_code)


def _load_job(path: Path, overrides: list[str] | None, output: str | None) -> Job:
    from qwen_batch.job import load_job

    job = load_job(path, overrides or ())
    if output is None or output == "-":
        return job
    folder = str(Path(output).absolute())
    return job.model_copy(update={"output": job.output.model_copy(update={"dir": folder})})


@app.command()
def extract(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Documents to read.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each file.")] = False,
    as_diff: Annotated[bool, typer.Option("--diff", help="What cleaning changed, word by word.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="Text beside pictures of the pages, for a browser.")] = False,
    password: Annotated[
        list[str] | None, typer.Option(metavar="P", help="Opens encrypted PDFs; repeatable: all are tried.")
    ] = None,
    password_file: Annotated[Path | None, typer.Option(metavar="F", help="A file with one password a line.")] = None,
    no_clean: Annotated[bool, typer.Option("--no-clean", help="The text as it is read: no cleaning step.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="STEP", help="Without this cleaning step, by its name in a job's `clean`; repeatable."),
    ] = None,
    ocr: Annotated[OcrName, typer.Option(help="Whether pages that are images are read.")] = OcrName.auto,
    timeout: Annotated[
        float, typer.Option(min=0.001, max=1e6, metavar="SECONDS", help="A file that takes longer fails.")
    ] = 60.0,
    memory_limit: Annotated[
        str, typer.Option(metavar="SIZE", help="Address space of the process that reads; a file that needs more fails.")
    ] = "1GiB",
    max_pages: Annotated[int, typer.Option(min=1, help="A file with more pages fails.")] = 20_000,
) -> None:
    """Show what reading and cleaning make of files. Exit code 0, or 3 when one could not be read."""
    from qwen_batch.extraction import Extraction, Form, run_extraction
    from qwen_batch.records import ReadSettings

    forms: dict[Form, bool] = {"json": as_json, "diff": as_diff, "html": as_html}
    wanted = frozenset(form for form, is_wanted in forms.items() if is_wanted)
    settings = ReadSettings(
        timeout_seconds=timeout,
        memory_limit=_size("--memory-limit", memory_limit),
        max_pages=max_pages,
        ocr=ocr.value,
        passwords=tuple(password or ()),
        password_file=None if password_file is None else str(password_file),
    )
    raise typer.Exit(run_extraction(Extraction(tuple(files), wanted, settings, tuple(without or ()), no_clean)))


def _size(flag: str, text: str) -> int:
    from qwen_batch.job import parse_size

    try:
        size = int(str(parse_size(text)))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if size < LEAST_MEMORY_MIB << 20:
        raise UsageError(f"{flag} {text}: nothing is read in less than {LEAST_MEMORY_MIB}MiB; write 256MiB or more")
    return size


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder of a run.", show_default=False)],
    rows: Annotated[int, typer.Option(min=0, help="Print the first N answers.")] = 3,
) -> None:
    """Summarise the table of an output folder."""
    from qwen_batch.operate.stages import format_busy
    from qwen_batch.write.audit import last_event
    from qwen_batch.write.report import format_table, iter_answers, summarize

    event = last_event(folder / "audit", "run_finished") or {}
    device = format_busy(event.get("stage_seconds"))
    typer.echo(visible(format_table(summarize(folder), iter_answers(folder, rows), device)))


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder of a run.", show_default=False)],
) -> None:
    """Check rows, parts, journal and audit log of an output folder against each other.

    Exit code 0: clean; 3: something is wrong, and printed; 75: a run works there.
    """
    from qwen_batch.operate.lock import OutputLock
    from qwen_batch.write.verify import verify as verify_folder

    if not (folder / ".journal").is_dir():  # the lock would make it
        raise UsageError(f"{folder}: is no output of a run (no .journal in it); name its output.dir")
    with OutputLock(folder, may_be_read_only=True):
        report = verify_folder(folder)
    typer.echo(visible(report.format()))
    raise typer.Exit(3 if report.problems else 0)


@app.command()
def monitoring(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into.", show_default=False)],
) -> None:
    """Write the Grafana dashboard and the Prometheus alert rules that belong to the metrics of `run`."""
    from importlib import resources

    for name in ("dashboard.json", "alerts.yml"):
        content = resources.files("qwen_batch.operate").joinpath("monitoring", name).read_bytes()
        target = folder / f"qwen-batch-{name}"
        try:
            target.write_bytes(content)
        except OSError as error:
            raise UsageError(f"{target}: cannot be written: {error.strerror}") from None
        typer.echo(str(target))


@app.command()
def bench(
    workload: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="seed, tickets, contracts, uniform, or a JSONL file; repeatable. All three."),
    ] = None,
    engines: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="qwen-batch, hf-loop, hf-batch, hf-continuous, vllm, openvino, llama-cpp."),
    ] = None,
    model: Annotated[str, typer.Option(help="`demo`, a Hugging Face id or a folder.")] = "demo",
    dtype: Annotated[DTypeName, typer.Option(help="Precision of every engine.")] = DTypeName.auto,
    device: Annotated[DeviceName, typer.Option(help="Where our engine and transformers run.")] = DeviceName.auto,
    threads: Annotated[int | None, typer.Option(min=1, help="Of each engine; torch's own choice.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Of each workload, at most.")] = 16,
    full: Annotated[bool, typer.Option("--full", help="All requests of each workload; takes long on a CPU.")] = False,
    baseline_requests: Annotated[int, typer.Option(min=1, help="Of these, for one-by-one transformers.")] = 2,
    agreement_requests: Annotated[
        int, typer.Option(min=0, help="Of these, to compare first tokens on with transformers in float32; 0: none.")
    ] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; medians are compared.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the requests.")] = 0,
    overrides: Annotated[
        list[str] | None, typer.Option("-o", "--set", metavar="KEY=VALUE", help="A setting of our engine; repeatable.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KEY=VALUE,...", help="Also our engine with these settings; repeatable."),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(metavar="ENGINE=PATH", help="The Python, or the program, of another engine; repeatable."),
    ] = None,
    engine_model: Annotated[
        list[str] | None, typer.Option(metavar="ENGINE=PATH", help="The model in that engine's own form; repeatable.")
    ] = None,
    min_tokens: Annotated[int | None, typer.Option(min=1, help="Shortest prompt of `uniform`.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest prompt of `uniform`.")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, help="Forced length of answers of `uniform`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
) -> None:
    """Measure this engine beside others on this machine: agreement, rates, share of the machine's limit, memory.

    Each engine runs in a process of its own. Exit code 1 when one of them failed.
    """
    from qwen_batch.bench import Bench, BenchOptions, find_engines, find_variants, find_workload, format_comparison

    lengths = {"min_body_tokens": min_tokens, "max_body_tokens": max_tokens, "output_tokens": output_tokens}
    count = None if full else requests
    workloads = [find_workload(name, count, lengths) for name in workload or ("seed", "tickets", "contracts")]
    names = [name for group in engines or () for name in group.split(",") if name]
    competitors = find_engines(names, _pairs("--path", path), _pairs("--engine-model", engine_model))
    competitors += find_variants(variant or ())
    options = BenchOptions(
        model=model,
        device=device.value,
        dtype=dtype.value,
        threads=threads,
        rounds=rounds,
        sampled_requests=baseline_requests,
        agreement_requests=agreement_requests,
        seed=seed,
        settings=_pairs("--set", overrides),
    )
    measure = Bench(options, report=lambda line: typer.echo(line, err=True))
    measure.check(workloads, competitors)
    results = []
    for chosen in workloads:
        results.append(measure.compare(chosen, competitors))
        if not as_json:
            typer.echo(format_comparison(results[-1]) + "\n")
    if as_json:
        typer.echo(json.dumps([result.to_json() for result in results], indent=2))
    raise typer.Exit(any(engine.error for result in results for engine in result.engines))


def _pairs(flag: str, values: list[str] | None) -> dict[str, str]:
    pairs = {}
    for value in values or ():
        key, equals, rest = value.partition("=")
        if not (key and equals and rest):
            raise UsageError(f"{flag} {value}: write {flag} KEY=VALUE")
        pairs[key] = rest
    return pairs


@app.command()
def schema() -> None:
    """Print the JSON schema of job files, for editors that complete and check YAML."""
    from qwen_batch.job import job_schema

    typer.echo(json.dumps(job_schema(), indent=2, ensure_ascii=False))


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="[JOB]", help="File to write; `-` prints it.")] = Path("job.yaml"),
) -> None:
    """Write a job file to start from, with every key explained."""
    from qwen_batch.job import job_template

    if str(path) == "-":
        typer.echo(job_template(), nl=False)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(job_template())
    except FileExistsError:
        raise UsageError(f"{path}: exists already; name another file, or `-` to print the template") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    typer.echo(f"{path}: written; edit it, then: qwen-batch run {path}", err=True)


@model_app.command("pull")
def model_pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="`demo`, or a Hugging Face id.", show_default=False)],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
) -> None:
    """Fetch a model, so that runs need no network. Prints its folder."""
    from qwen_batch.model.registry import pull

    typer.echo(str(pull(name, revision, report=lambda line: typer.echo(line, err=True))))


@model_app.command("list")
def model_list() -> None:
    """List the models that are on this machine."""
    from qwen_batch.model.registry import list_models

    for model in list_models():
        typer.echo(f"{model.name}\t{model.num_bytes / 1e9:.2f} GB\t{model.source}\t{model.folder}")


if __name__ == "__main__":
    main()
