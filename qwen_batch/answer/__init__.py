"""Completions -> Answers."""
