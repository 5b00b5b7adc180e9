"""One file for each engine; `worker.py` loads them by path, under the Python that the engine is installed in."""
