"""From a method to an engine: configurations, a linter, exported folders, readers of metrics."""
