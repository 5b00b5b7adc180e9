"""Tables of PDF pages, ruled and unruled, from lines and white."""
