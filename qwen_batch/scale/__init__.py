"""Other machines: Ray, S3-compatible storage, work from a queue. Nothing of it is there yet."""
