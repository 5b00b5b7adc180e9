"""Everything that this package raises on purpose, in one tree.

    QwenBatchError
    ├── UsageError             exit 2   the command line or the Python call is wrong
    │   └── JobError           exit 2   the job file is wrong: file, line, key, and what is allowed there
    ├── RunError               exit 1   the run cannot go on
    │   ├── ModelError         exit 1   the model is missing, damaged, or of a kind that we do not run
    │   ├── OutputError        exit 1   the output folder cannot be written or holds something else
    │   └── LockHeldError      exit 75  another run holds the lock of this folder
    ├── StoppedError           exit 130 or 143, after a signal, with everything saved
    └── DocumentError          no exit  one document fails; it becomes a row, and the run goes on

A message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations


class QwenBatchError(Exception):
    """Base of all errors of this package; `exit_code` is what the command line returns for it."""

    exit_code: int = 1


class UsageError(QwenBatchError):
    """The command line or the Python call is wrong."""

    exit_code = 2


class JobError(UsageError):
    """The job file is wrong. The message has one line for each problem: `file:line: key: what to do`."""


class RunError(QwenBatchError):
    """The run cannot go on; what is finished is on disk."""


class ModelError(RunError):
    """The model is missing, damaged, or of a kind that we do not run."""


class OutputError(RunError):
    """The output folder cannot be written, or holds something that we did not write."""


class LockHeldError(RunError):
    """Another run holds the lock of this output folder."""

    exit_code = 75


class StoppedError(QwenBatchError):
    """A signal ended the run after everything finished was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class DocumentError(QwenBatchError):
    """One document cannot be processed. It becomes a failed row.

    error_type: a short fixed word that a query can group by, such as `encrypted` or `too_long`.
    num_pages: of the document, where they could be counted.
    """

    def __init__(self, error_type: str, message: str, num_pages: int | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.num_pages = num_pages

    def __reduce__(self) -> tuple[type[DocumentError], tuple[str, str, int | None]]:
        return type(self), (self.error_type, str(self), self.num_pages)
