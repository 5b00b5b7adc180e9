"""Text files of any encoding, Markdown, CSV and HTML."""
