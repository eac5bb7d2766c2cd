"""Where rules come from and who shipped them, in Chinese; the English stands with each rule."""

from __future__ import annotations

from speclab.core.protocols import VerifyRule

LEVIATHAN = "Leviathan 等 2211.17192"
SOURCE_ZH: dict[str, str] = {
    "token": f"{LEVIATHAN}，算法 1；Chen 等 2302.01318，算法 2",
    "one-hot": f"{LEVIATHAN}，q 取独热",
    "match": "先采样再比对；因为不匹配时输出的正是那次采样，所以精确（2602.06036）",
    "block": "Sun 等 2403.10444，算法 2",
    "siblings-iid": "SpecInfer 2305.09781，算法 2",
    "siblings-without-replacement": "递归拒绝采样，RSD 2402.14160；Sequoia 2402.12374",
    "siblings-topk": f"{LEVIATHAN}，q 取独热；EAGLE-2 2406.16858",
    "k-seq": "SpecTr 2310.15141，算法 2",
    "coupled": "Daliri、Musco、Suresh 2408.07978，算法 1",
    "typical": "Medusa 2401.10774，2.3.1 节",
    "lenience": f"{LEVIATHAN}，附录 A.5",
    "threshold": f"对 {LEVIATHAN} 的比值用硬阈值",
    "threshold-log-ratio": f"对 {LEVIATHAN} 的对数比值用硬阈值",
    "top-k-membership": "没有 q 的草稿常用的捷径",
    "relaxed-greedy": "放宽的接受，TensorRT-LLM（其 DeepSeek-R1 配方取 N = 10、delta = .6）",
    "broken-redraw-after-mismatch": "先采样再比对，却扔掉不匹配的那次采样",
    "broken-redraw-from-p": f"{LEVIATHAN}，算法 1，去掉残差",
    "broken-softmax-residual": f"{LEVIATHAN}，算法 1，把 norm 误作 softmax",
    "broken-argmax-draft-softmax-q": f"{LEVIATHAN}，算法 1，用错了 q",
    "broken-top-p-one-side": f"{LEVIATHAN}，算法 1，用错了 q",
    "broken-wrong-temperature": f"{LEVIATHAN}，算法 1，用错了 q",
    "broken-undrawing": "忘记抽到过什么的置信度阈值",
    "broken-accept-above-q": f"{LEVIATHAN}，算法 1 的一半",
    "broken-shared-noise": "对共享噪声（2408.07978）的草稿做比值检验（2211.17192）",
    "broken-redraw-after-race": "2408.07978，算法 1，不一致后重新采样",
    "broken-best-of-samples": "按草稿自己的 q 重新排序采样结果",
    "broken-naive-multi-draft": "SpecInfer 2305.09781，算法 2，去掉对 p 的更新",
    "broken-sorted-siblings": "RSD 2402.14160，次序错误",
}
SHIPPED_ZH = (
    (
        "SGLang, as accept_threshold_single and accept_threshold_acc below 1 (off by default)",
        "SGLang，accept_threshold_single 与 accept_threshold_acc 小于 1 时（默认关闭）",
    ),
    ("Medusa, its default above temperature 0:", "Medusa，温度高于 0 时的默认做法："),
    ("TensorRT-LLM, for DeepSeek-R1's thinking phase:", "TensorRT-LLM，用于 DeepSeek-R1 思考："),
    ("Hugging Face Transformers, until this repair:", "Hugging Face Transformers，直到这次修复："),
    (
        "Hugging Face Transformers with a greedy assistant:",
        "Hugging Face Transformers，使用贪心的辅助模型：",
    ),
    (
        "Hugging Face Transformers, its DFlash and MTP drafters:",
        "Hugging Face Transformers 的 DFlash 与 MTP 草稿：",
    ),
    (
        "The same family, a verifier that ignores the request's temperature: lattice,",
        "同类错误，验证时忽略请求的温度：lattice，",
    ),
    (
        "SGLang, as accept_threshold_single and accept_threshold_acc below 1 (off by default)",
        "SGLang 的 accept_threshold_single 与 accept_threshold_acc 小于 1 时（默认关闭）",
    ),
    ("; the Space ", "；Space "),
    ("; ATOM, ", "；ATOM，"),
    ("; DeepSpec: ", "；DeepSpec："),
)


def source(rule: VerifyRule, lang: str) -> str:
    """Return where a rule comes from."""
    return SOURCE_ZH.get(rule.name, rule.source) if lang == "zh" else rule.source


def shipped(rule: VerifyRule, lang: str) -> str:
    """Return which real software shipped a rule; empty where nobody is known to."""
    text = rule.shipped_by
    if lang == "zh":
        for english, chinese in SHIPPED_ZH:
            text = text.replace(english, chinese)
    return text
