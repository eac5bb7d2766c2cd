"""Experiments: what to run, how often, saved where, with provenance."""
