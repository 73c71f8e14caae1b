"""Scoring of a campaign's submissions: pure functions from data to integers (docs/scoring.md)."""
