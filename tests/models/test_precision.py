"""bfloat16 is a default only where it is fast."""

from __future__ import annotations

import pytest
import torch

from speclab.core.errors import BadInput
from speclab.models import loading, precision


@pytest.mark.parametrize(
    ("capability", "device", "default", "expected"),
    [
        ("AVX2", "cpu", "bfloat16", "float32"),
        ("AVX512", "cpu", "bfloat16", "bfloat16"),
        ("AVX2", "cpu", "float32", "float32"),
        ("AVX2", "cuda", "bfloat16", "bfloat16"),
    ],
)
def test_default_dtype(
    monkeypatch: pytest.MonkeyPatch, capability: str, device: str, default: str, expected: str
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert loading.choose_dtype(None, default, device) == expected
    assert loading.choose_dtype("bfloat16", default, device) == "bfloat16"
    with pytest.raises(BadInput, match="float8"):
        loading.choose_dtype("float8", default, device)


@pytest.mark.parametrize(("capability", "dtype"), [("AVX2", "float32"), ("AVX512", "bfloat16")])
def test_autocast_is_on_only_where_products_are_fast(
    monkeypatch: pytest.MonkeyPatch, capability: str, dtype: str
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    with precision.autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == getattr(torch, dtype)
