"""CleanDocument -> Requests."""
