"""Answers -> Parquet and journal."""

from __future__ import annotations
