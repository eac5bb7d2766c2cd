"""A roofline of decoding: what a pass costs, which resource limits it, what speculation gains.

Everything here is modelled. A pass is a handful of groups; each takes the longer of its bytes over
the bandwidth and its operations over the peak, both at the share that real kernels reach, and the
groups follow one another. A fixed overhead comes on top. `ASSUMPTIONS` lists what is left out.

Example:
    >>> from speclab.core.roofline import Setting, pass_cost
    >>> from speclab.core.roofline_rounds import Speculation, batch_curve, crossing
    >>> from speclab.lab.hardware import HARDWARE
    >>> from speclab.lab.model_shapes import SHAPES
    >>> here = Setting(target=SHAPES["llama-8b"], hardware=HARDWARE["h100"])
    >>> step = pass_cost(here, batch=1, tokens=1, context=256)
    >>> step.limit, round(1000 * step.seconds, 1)
    ('weights', 6.3)
    >>> chain = Speculation.chain(0.8, 4, SHAPES["llama-1b"])
    >>> sizes = (1, 64, 128, 256)
    >>> curve = batch_curve(here, chain, batches=sizes, context=256)
    >>> [round(point.speedup, 2) for point in curve], [p.verify.limit for p in curve]
    ([1.73, 1.54, 1.1, 0.79], ['weights', 'compute', 'compute', 'compute'])
    >>> round(crossing(sizes, [point.speedup for point in curve]))
    169

**Source:** Williams, Waterman, Patterson 2009 (the roofline); Leviathan et al. 2211.17192, theorem
3.8, for c and v(n); MagicDec 2408.11049, section 3, for the part of the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText

Limit = Literal["weights", "kv", "compute", "overhead"]
"""What a pass waits for: reading weights, reading the KV cache, arithmetic, or launches."""

LIMITS: tuple[Limit, ...] = ("weights", "kv", "compute", "overhead")
MOST_BATCH, MOST_TOKENS, MOST_CONTEXT = 4096, 4096, 1_048_576

ASSUMPTIONS = (
    LocalText(
        "Each group of matrix products takes the longer of bytes / bandwidth and operations / "
        "peak; a hard knee, where real kernels have a soft one.",
        "每组矩阵乘法的时间取“字节数/带宽”与“运算量/峰值”中较长者；真实内核的拐点更平缓。",
    ),
    LocalText(
        "Kernels reach a fixed share of both peaks; the share is chosen once per machine.",
        "内核只达到两个峰值的固定比例；每种硬件只设定一次。",
    ),
    LocalText(
        "Weights are read once per pass, the cache once per sequence and pass; activations, "
        "norms and sampling are free.",
        "每趟只读一遍权重，每个序列每趟只读一遍缓存；激活、归一化与采样不计时间。",
    ),
    LocalText(
        "Experts are chosen uniformly and independently by every token.",
        "每个词元独立、均匀地选择专家。",
    ),
    LocalText(
        "All sequences of a batch have the same context; one device, no communication.",
        "同一批的所有序列上下文等长；单个设备，没有通信。",
    ),
    LocalText(
        "Low-bit weights are unpacked for free; arithmetic runs in the compute type.",
        "低比特权重的解包不计时间；运算按计算类型进行。",
    ),
)


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside low..high, NaN included.

    Raises:
        BadInput: naming it.
    """
    if not low <= value <= high:
        limits = [f"{x:,.0f}" if x >= 10 else f"{x:g}" for x in (low, high)]
        raise BadInput(
            f"{name}: from {limits[0]} to {limits[1]} is possible, not {value:g}.",
            code="field_range",
            values={"name": name, "low": limits[0], "high": limits[1], "value": f"{value:g}"},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device.

    Attributes:
        bandwidth_bytes_per_s: peak of its memory.
        flops_per_s: peak by compute type, dense (no sparsity).
        bandwidth_share: of the peak that decoding kernels reach.
        compute_share: likewise.
        pass_overhead_s: of any pass: launch, scheduler, sampling.
        layer_overhead_s: of each layer.
        source: where the peaks are written.
        shares_source: where shares and overheads come from.
    """

    name: str
    title: str
    bandwidth_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    memory_bytes: float
    bandwidth_share: float
    compute_share: float
    pass_overhead_s: float
    layer_overhead_s: float
    source: str
    shares_source: LocalText


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a Llama-like decoder, dense or with experts, or of a head that drafts for one.

    Attributes:
        hidden: width of the residual stream. intermediate: of a gated MLP; 0 without a dense one.
        kv_heads: grouped queries when fewer than `heads`.
        tied: the embedding is the output matrix, or belongs to the target.
        experts: per layer; 0 for a dense model. experts_per_token: of these.
        input_multiple: q, k and v read this many hidden states (2 in EAGLE-3).
        extra_params: of further matrices that every pass reads.
    """

    name: str
    title: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    input_multiple: int = 1
    extra_params: int = 0
    source: str = ""

    @property
    def attention_params(self) -> int:
        """Parameters of q, k, v and o in all layers."""
        qkv = self.input_multiple * self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim
        return self.layers * (qkv + self.heads * self.head_dim * self.hidden)

    @property
    def dense_params(self) -> int:
        """Parameters of the dense MLPs, the routers and further matrices."""
        mlp = 3 * self.hidden * self.intermediate + self.hidden * self.experts
        return self.layers * mlp + self.extra_params

    @property
    def expert_params(self) -> int:
        """Parameters of one expert in every layer."""
        return self.layers * 3 * self.hidden * self.expert_intermediate

    @property
    def output_params(self) -> int:
        """Parameters of the output matrix."""
        return self.hidden * self.vocab

    @property
    def total_params(self) -> int:
        """All matrices in memory; norms and biases are left out."""
        embedding = 0 if self.tied else self.output_params
        experts = self.experts * self.expert_params
        return self.attention_params + self.dense_params + experts + self.output_params + embedding

    @property
    def active_params(self) -> int:
        """Parameters multiplied per token: without the embedding and unused experts."""
        experts = self.experts_per_token * self.expert_params
        return self.attention_params + self.dense_params + experts + self.output_params

    def kv_bytes_per_token(self, kv_bytes: float = 2.0) -> float:
        """Return bytes of the cache per token, at `kv_bytes` per number."""
        return 2.0 * self.layers * self.kv_heads * self.head_dim * kv_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A target on a device.

    Attributes:
        weight_bytes: per parameter: 4 float32, 2 bfloat16, 1 eight bits, 0.5 four bits.
        kv_bytes: per number of the cache.
        compute: type the products run in; a key of `hardware.flops_per_s`.
    """

    target: ModelShape
    hardware: Hardware
    weight_bytes: float = 2.0
    kv_bytes: float = 2.0
    compute: str = "bfloat16"

    def __post_init__(self) -> None:
        """Refuse sizes that mean nothing."""
        check_range("weight_bytes", self.weight_bytes, 0.25, 8)
        check_range("kv_bytes", self.kv_bytes, 0.25, 8)
        if self.compute not in self.hardware.flops_per_s:
            raise BadInput(
                f"{self.hardware.title} has no peak for {self.compute!r}.",
                f"Choose one of {', '.join(self.hardware.flops_per_s)}.",
            )

    @property
    def bandwidth(self) -> float:
        """Bytes/s that kernels reach."""
        return self.hardware.bandwidth_bytes_per_s * self.hardware.bandwidth_share

    @property
    def flops(self) -> float:
        """Operations/s that kernels reach."""
        return self.hardware.flops_per_s[self.compute] * self.hardware.compute_share

    @property
    def critical_tokens(self) -> float:
        """Tokens in a pass at which dense products turn from memory to compute."""
        return self.flops * self.weight_bytes / (2.0 * self.bandwidth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One part of a pass.

    Attributes:
        name: attention, mlp, experts, output or kv.
        memory_s: its bytes at the bandwidth reached. compute_s: its operations likewise.
    """

    name: str
    num_bytes: float
    num_flops: float
    memory_s: float
    compute_s: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.memory_s, self.compute_s)

    @property
    def limit(self) -> Limit:
        """What it waits for."""
        if self.compute_s > self.memory_s:
            return "compute"
        return "kv" if self.name == "kv" else "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCost:
    """What one pass of one model costs.

    Attributes:
        tokens: per sequence in the pass. context: tokens already in each sequence's cache.
        distinct_experts: expected number read per layer; 0 for a dense model.
        assumptions: what the model leaves out.
    """

    batch: int
    tokens: int
    context: int
    groups: tuple[Group, ...]
    overhead_s: float
    distinct_experts: float
    assumptions: tuple[LocalText, ...] = ASSUMPTIONS

    @property
    def seconds(self) -> float:
        """Of the pass."""
        return self.overhead_s + sum(group.seconds for group in self.groups)

    @property
    def terms(self) -> dict[Limit, float]:
        """Seconds by what is waited for; they add up to `seconds`."""
        found: dict[Limit, float] = dict.fromkeys(LIMITS, 0.0)
        found["overhead"] = self.overhead_s
        for group in self.groups:
            found[group.limit] += group.seconds
        return found

    @property
    def limit(self) -> Limit:
        """The largest term."""
        terms = self.terms
        return max(LIMITS, key=terms.__getitem__)

    @property
    def num_bytes(self) -> float:
        """Bytes read."""
        return sum(group.num_bytes for group in self.groups)

    @property
    def num_flops(self) -> float:
        """Arithmetic operations."""
        return sum(group.num_flops for group in self.groups)


def distinct_experts(experts: int, per_token: int, tokens: float) -> float:
    """Return how many experts `tokens` tokens touch, each choosing evenly and independently."""
    if not experts:
        return 0.0
    return experts * (1.0 - (1.0 - per_token / experts) ** tokens)


def pass_cost(
    setting: Setting,
    *,
    batch: int = 1,
    tokens: int = 1,
    context: int = 1024,
    shape: ModelShape | None = None,
) -> PassCost:
    """Return the cost of one pass.

    Args:
        batch: sequences. tokens: of each in the pass. context: of each in the cache.
        shape: the model; None is the target.
    """
    check_range("batch", batch, 1, MOST_BATCH)
    check_range("tokens", tokens, 1, MOST_TOKENS)
    check_range("context", context, 0, MOST_CONTEXT)
    model = shape or setting.target
    rows = batch * tokens
    touched = distinct_experts(model.experts, model.experts_per_token, rows)
    used = model.experts_per_token * model.expert_params
    sizes = [
        ("attention", model.attention_params, model.attention_params),
        ("mlp", model.dense_params, model.dense_params),
        ("experts", touched * model.expert_params, used),
        ("output", model.output_params, model.output_params),
    ]
    groups = [
        _group(setting, name, read * setting.weight_bytes, 2.0 * multiplied * rows)
        for name, read, multiplied in sizes
        if read
    ]
    seen = context + (tokens + 1) / 2
    scores = 4.0 * model.layers * model.heads * model.head_dim * rows * seen
    cache = batch * (context + tokens) * model.kv_bytes_per_token(setting.kv_bytes)
    groups.append(_group(setting, "kv", cache, scores))
    hardware = setting.hardware
    return PassCost(
        batch=batch,
        tokens=tokens,
        context=context,
        groups=tuple(groups),
        overhead_s=hardware.pass_overhead_s + model.layers * hardware.layer_overhead_s,
        distinct_experts=touched,
    )


def _group(setting: Setting, name: str, num_bytes: float, num_flops: float) -> Group:
    return Group(
        name=name,
        num_bytes=num_bytes,
        num_flops=num_flops,
        memory_s=num_bytes / setting.bandwidth,
        compute_s=num_flops / setting.flops,
    )
