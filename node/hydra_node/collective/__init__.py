"""Agreed membership views and the fault-tolerant, exact All-Reduce (docs/allreduce.md)."""
