"""Sessions over Hugging Face models and toy tables, and where weights come from."""
