"""Trained heads: small networks that draft from the target's own features."""
