"""Results to figures: pure functions that return Plotly figures as plain dictionaries."""
