"""A wheel must carry what the machine compiles."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

from qwen_batch.model.native_library import HEADERS, SOURCES

ROOT = Path(__file__).parents[2]


def test_wheels_carry_every_source_and_header_that_is_compiled() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["qwen_batch"]
    for path in (*SOURCES, *HEADERS):
        assert any(fnmatch.fnmatch(f"model/{path.name}", pattern) for pattern in patterns), f"{path.name} is left out"


def test_every_header_that_is_included_is_known() -> None:
    """Its text is part of the library's fingerprint: a change of it compiles anew."""
    known = {path.name for path in HEADERS}
    for path in (*SOURCES, *HEADERS):
        included = [line.split('"')[1] for line in path.read_text().splitlines() if line.startswith('#include "')]
        assert set(included) <= known, path.name
