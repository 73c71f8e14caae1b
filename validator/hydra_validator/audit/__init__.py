"""Audit of a training job: recompute what was drawn, and settle what was verified."""
