"""Which options of speculation an engine has in the version checked, and which it had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from speclab.core.protocols import LocalText

NO_TEXT = LocalText("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one engine.

    Attributes:
        version: that was checked.
        current: every option or key it takes.
        other_names: shorter or older spelling that is still taken -> the option.
        removed: option that is gone -> what to write now (may be empty).
        lossy: option -> below or at which value the law changes, as a sentence.
        values: option -> the words it takes.
        whole: whether every option of speculation is listed; else an unknown one may exist.
    """

    version: str
    current: frozenset[str]
    other_names: Mapping[str, str] = field(default_factory=dict)
    removed: Mapping[str, str] = field(default_factory=dict)
    lossy: Mapping[str, LocalText] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: bool = True


def _words(text: str, prefix: str = "") -> frozenset[str]:
    return frozenset(prefix + word for word in text.split())


VLLM = Options(
    version="0.33.0",
    current=_words(
        "--speculative-config --spec-method --spec-model --spec-tokens "
        "--per-request-spec-decode-metrics --diffusion-config"
    ),
    other_names={"-sc": "--speculative-config", "-dc": "--diffusion-config"},
    removed={
        "--speculative-model": '--speculative-config {"model": …}',
        "--num-speculative-tokens": '--speculative-config {"num_speculative_tokens": …}',
        "--speculative-draft-tensor-parallel-size": (
            '--speculative-config {"draft_tensor_parallel_size": …}'
        ),
        "--speculative-max-model-len": '--speculative-config {"max_model_len": …}',
        "--speculative-model-quantization": '--speculative-config {"quantization": …}',
        "--speculative-disable-by-batch-size": (
            '--speculative-config {"num_speculative_tokens_per_batch_size": …}'
        ),
        "--ngram-prompt-lookup-max": '--speculative-config {"prompt_lookup_max": …}',
        "--ngram-prompt-lookup-min": '--speculative-config {"prompt_lookup_min": …}',
        "--spec-decoding-acceptance-method": '--speculative-config {"rejection_sample_method": …}',
        "--typical-acceptance-sampler-posterior-threshold": "",
        "--typical-acceptance-sampler-posterior-alpha": "",
        "--speculative-disable-mqa-scorer": "",
    },
    values={"--per-request-spec-decode-metrics": ("none", "summary", "detailed")},
)
VLLM_JSON = Options(
    version="0.33.0",
    current=_words(
        "method model num_speculative_tokens revision code_revision quantization max_model_len "
        "draft_tensor_parallel_size attention_backend kv_cache_dtype moe_backend "
        "prompt_lookup_max prompt_lookup_min suffix_decoding_max_tree_depth "
        "suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor "
        "suffix_decoding_min_token_prob parallel_drafting draft_sample_method "
        "rejection_sample_method fly_window_size fly_entropy_threshold fly_entropy_top_k "
        "synthetic_acceptance_rates synthetic_acceptance_length "
        "num_speculative_tokens_per_batch_size enable_adaptive_verification "
        "use_heterogeneous_vocab draft_lm_head_quantization dspark_draft_topk xpress_topc "
        "disable_padded_drafter_batch use_local_argmax_reduction enforce_eager"
    ),
    removed={
        "disable_by_batch_size": "num_speculative_tokens_per_batch_size",
        "tensor_parallel_size": "draft_tensor_parallel_size",
        "acceptance_method": "rejection_sample_method",
        "posterior_threshold": "",
        "posterior_alpha": "",
        "disable_mqa_scorer": "",
    },
    values={
        "method": (
            *("ngram", "ngram_gpu", "draft_model", "suffix", "custom_class", "eagle", "eagle3"),
            *("extract_hidden_states", "mtp", "dflash", "dspark"),
        ),
        "draft_sample_method": ("greedy", "probabilistic"),
        "rejection_sample_method": ("standard", "synthetic", "block", "fly"),
        "draft_lm_head_quantization": ("fp8", "nvfp4"),
    },
)
VLLM_OLDER_METHODS = {"medusa": "0.32.0", "mlp_speculator": "0.32.0"}
"""Methods that are gone -> the last version read that has them."""

_THRESHOLD = LocalText(
    "Below 1.0 drafts are accepted too easily: the text no longer follows the target's law.",
    "低于 1.0 时接受得过于容易，输出不再服从目标模型的分布。",
)
SGLANG_ALGORITHMS = (
    *("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO"),
)
SGLANG = Options(
    version="0.5.23",
    current=_words("--enable-multi-layer-eagle --dllm-algorithm --dllm-algorithm-config")
    | _words("--spec-trace-dir --uno-lora-path")
    | _words(
        "algorithm draft-model-path draft-model-revision draft-model-quantization "
        "draft-load-format num-steps eagle-topk num-draft-tokens dflash-block-size "
        "dspark-block-size dspark-sps-table-path dspark-confidence-sts-path "
        "dspark-align-verify-tokens-to-graph-tier domino-candidate-pool-size "
        "accept-threshold-single accept-threshold-acc use-rejection-sampling "
        "use-block-verification token-map attention-mode draft-attention-backend "
        "dsa-topk-backend draft-kv-cache-dtype draft-window-size draft-sink-size "
        "moe-runner-backend moe-a2a-backend enable-w4a4-mxfp4-megamoe adaptive adaptive-config "
        "ngram-min-bfs-breadth ngram-max-bfs-breadth ngram-match-type ngram-max-trie-depth "
        "ngram-capacity ngram-external-corpus-path ngram-external-sam-budget "
        "ngram-external-corpus-max-tokens",
        "--speculative-",
    ),
    other_names={"--speculative-draft-model": "--speculative-draft-model-path"},
    lossy={
        "--speculative-accept-threshold-single": _THRESHOLD,
        "--speculative-accept-threshold-acc": _THRESHOLD,
    },
    values={
        "--speculative-attention-mode": ("prefill", "decode"),
        "--speculative-ngram-match-type": ("BFS", "PROB"),
    },
)
LLAMA_TYPES = (
    *("none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"),
    *("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"),
)
_NGRAM = "--spec-ngram-simple-{0} / --spec-ngram-map-k-{0} / --spec-ngram-map-k4v-{0}"
LLAMA_CPP = Options(
    version="0c1e57098 (2026-10-01)",
    current=_words(
        "--spec-type --spec-draft-model --spec-draft-hf --spec-draft-n-max --spec-draft-n-min "
        "--spec-draft-p-min --spec-draft-p-split --spec-draft-ngl --spec-draft-device "
        "--spec-draft-type-k --spec-draft-type-v --spec-draft-backend-sampling --spec-default "
        "--spec-synth-len --spec-synth-rates --spec-ngram-mod-n-match --spec-ngram-mod-n-min "
        "--spec-ngram-mod-n-max --metrics --no-spec-draft-backend-sampling --lookup-cache-static "
        "--lookup-cache-dynamic"
    )
    | _words(
        "threads threads-batch cpu-mask cpu-range cpu-strict prio poll cpu-mask-batch "
        "cpu-range-batch cpu-strict-batch prio-batch poll-batch override-tensor cpu-moe n-cpu-moe",
        "--spec-draft-",
    )
    | frozenset(
        f"--spec-ngram-{kind}-{what}"
        for kind in ("simple", "map-k", "map-k4v")
        for what in ("size-n", "size-m", "min-hits")
    ),
    other_names={
        "-md": "--spec-draft-model",
        "--model-draft": "--spec-draft-model",
        "-hfd": "--spec-draft-hf",
        "-hfrd": "--spec-draft-hf",
        "--hf-repo-draft": "--spec-draft-hf",
        "-ngld": "--spec-draft-ngl",
        "--gpu-layers-draft": "--spec-draft-ngl",
        "--n-gpu-layers-draft": "--spec-draft-ngl",
        "-devd": "--spec-draft-device",
        "--device-draft": "--spec-draft-device",
        "-td": "--spec-draft-threads",
        "--threads-draft": "--spec-draft-threads",
        "-tbd": "--spec-draft-threads-batch",
        "--threads-batch-draft": "--spec-draft-threads-batch",
        "-otd": "--spec-draft-override-tensor",
        "--override-tensor-draft": "--spec-draft-override-tensor",
        "-cmoed": "--spec-draft-cpu-moe",
        "--cpu-moe-draft": "--spec-draft-cpu-moe",
        "-ncmoed": "--spec-draft-n-cpu-moe",
        "--n-cpu-moe-draft": "--spec-draft-n-cpu-moe",
        "--spec-draft-ncmoe": "--spec-draft-n-cpu-moe",
        "-lcs": "--lookup-cache-static",
        "-lcd": "--lookup-cache-dynamic",
        "-ctkd": "--spec-draft-type-k",
        "--cache-type-k-draft": "--spec-draft-type-k",
        "-ctvd": "--spec-draft-type-v",
        "--cache-type-v-draft": "--spec-draft-type-v",
        "--draft-p-min": "--spec-draft-p-min",
        "--draft-p-split": "--spec-draft-p-split",
    },
    removed={
        "--draft": "--spec-draft-n-max",
        "--draft-n": "--spec-draft-n-max",
        "--draft-max": "--spec-draft-n-max",
        "--draft-min": "--spec-draft-n-min",
        "--draft-n-min": "--spec-draft-n-min",
        "--spec-ngram-size-n": _NGRAM.format("size-n"),
        "--spec-ngram-size-m": _NGRAM.format("size-m"),
        "--spec-ngram-min-hits": _NGRAM.format("min-hits"),
    },
    values={"--spec-type": LLAMA_TYPES},
    whole=False,
)
TGI = Options(
    version="db931fc (2026-01-08)",
    current=_words("--speculate"),
    whole=False,
)
TENSORRT = Options(
    version="1.4.0rc4",
    current=_words(
        "decoding_type max_draft_len max_total_draft_tokens speculative_model max_concurrency "
        "draft_len_schedule acceptance_rate_window_size acceptance_rate_threshold "
        "use_rejection_sampling use_dynamic_tree dynamic_tree_max_topK num_nextn_predict_layers "
        "use_relaxed_acceptance_for_thinking relaxed_topk relaxed_delta "
        "max_matching_ngram_size is_keep_all is_use_oldest is_public_pool mask_token_id "
        "target_layer_ids enable_global_pool use_sa_spec sa_spec_threshold "
        "eagle3_layers_to_capture eagle3_model_arch spec_dec_variant"
    ),
    other_names={"speculative_model_dir": "speculative_model"},
    removed={"eagle_choices": "use_dynamic_tree + dynamic_tree_max_topK"},
    lossy={
        "use_relaxed_acceptance_for_thinking": LocalText(
            "Relaxed acceptance is lossy in the thinking part.", "在思考部分放宽接受，是有损的。"
        )
    },
    values={
        "decoding_type": (
            *("MTP", "Eagle3", "Eagle", "NGram", "DraftTarget", "PARD", "DFlash", "DSpark", "SA"),
            "AUTO",
        )
    },
    whole=False,
)
TRANSFORMERS = Options(
    version="5.24.0",
    current=_words(
        "assistant_model assistant_tokenizer tokenizer prompt_lookup_num_tokens "
        "max_matching_ngram_size assistant_early_exit use_mtp speculation_type "
        "assistant_ensemble_weight num_assistant_tokens num_assistant_tokens_schedule "
        "assistant_confidence_threshold assistant_lookbehind target_lookbehind"
    ),
    lossy={
        "assistant_ensemble_weight": LocalText(
            "Between 0 and 1 it mixes the draft's law into the target's: lossy.",
            "取 0 与 1 之间时把草稿的分布混入目标的分布：有损。",
        )
    },
    values={"num_assistant_tokens_schedule": ("constant", "heuristic", "heuristic_transient")},
)

OPTIONS: dict[str, Options] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "llama.cpp": LLAMA_CPP,
    "tensorrt-llm": TENSORRT,
    "tgi": TGI,
    "transformers": TRANSFORMERS,
}
"""Options of each engine by its key."""
