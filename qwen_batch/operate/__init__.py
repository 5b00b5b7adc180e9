"""lock, signals, logging, progress."""
