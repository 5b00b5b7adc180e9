"""Pages that are pictures of text."""
