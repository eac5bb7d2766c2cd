"""From traces to numbers with intervals. Pure functions."""
