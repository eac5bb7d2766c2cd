"""The Gradio pages: one file per tab; no model and no arithmetic in here."""
