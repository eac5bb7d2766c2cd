"""Recipes of every weight that the lab ships: corpora, the training loop, distillation."""
