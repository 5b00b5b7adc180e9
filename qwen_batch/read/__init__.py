"""Reading: from files, folders and JSON lines to documents as they were written.

Nothing is imported here: reading processes start fast because each loads only the reader that its file needs.
"""
