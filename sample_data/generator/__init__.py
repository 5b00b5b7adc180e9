"""Writes the files of sample_data/; see make_sample_data.py."""
