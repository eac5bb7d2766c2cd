"""Prompt presets of the lab: each is one prompt, its settings and the lesson it teaches."""

from __future__ import annotations

from dataclasses import dataclass, field

from speclab.core.laws import Sampling
from speclab.core.protocols import LocalText

ParamValue = float | int | bool | None

STORY = "One morning, Mira walked to the river."
COPY = """Copy the text.
Text: Mira lost a red kite near the river. Tom found it behind the old mill and gave it back.
Copy:"""
CODE_EDIT = '''Rename item to page in the code.
Code:
def count_items(items):
    """Count how often each item occurs."""
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts
Edited:
'''
JSON = """JSON: order
{"order": 214, "customer": "Mira", "items": ["""
DIGITS = """Copy the text.
Text: 482 957 330 186"""
CHINESE = "故事:从前,有一个孩子叫小明,住在河边。"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One prompt with its settings.

    Attributes:
        name: fixed public name; permalinks use it.
        title: two or three words for a button.
        lesson: what to look for, in one sentence.
        prompt: the text given to the target.
        method: which method shows the lesson.
        params: the method's parameters where they differ from the card's defaults.
        sampling: the request's sampling.
        rule: the verification rule.
        max_new_tokens: where the run ends.
        seed: the seed of the recorded run.
        runs_again: whether its lesson needs the text of an earlier run of the session.
    """

    name: str
    title: LocalText
    lesson: LocalText
    prompt: str
    method: str = "draft-model"
    params: dict[str, ParamValue] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.8))
    rule: str = "token"
    max_new_tokens: int = 80
    seed: int = 1
    runs_again: bool = False


_PRESETS = (
    Preset(
        name="story",
        title=LocalText("Story", "讲故事"),
        lesson=LocalText(
            "Prose is easy inside a phrase and hard where the story could go anywhere: "
            "look at which words the draft gets wrong.",
            "句子内部容易猜，情节转折处难猜：看看草稿模型在哪些词上猜错。",
        ),
        prompt=STORY,
    ),
    Preset(
        name="copy",
        title=LocalText("Copy task", "抄写"),
        lesson=LocalText(
            "When the answer already stands in the prompt, no draft model is needed: "
            "looking it up costs almost nothing and whole runs are accepted.",
            "答案已经写在提示里时，不需要草稿模型：直接查找几乎不花时间，而且整段整段地被接受。",
        ),
        prompt=COPY,
        method="prompt-lookup",
        sampling=Sampling(temperature=0.0),
        rule="one-hot",
        max_new_tokens=48,
    ),
    Preset(
        name="code-edit",
        title=LocalText("Code edit", "改代码"),
        lesson=LocalText(
            "An edit repeats most of its source, so lookup is accepted in long stretches. "
            "(This small target copies the code well but forgets to rename.)",
            "修改代码时大部分内容与原文相同，所以查找法会一长段一长段地被接受。"
            "（这个小目标模型抄得很好，却忘了改名。）",
        ),
        prompt=CODE_EDIT,
        method="prompt-lookup",
        sampling=Sampling(temperature=0.0),
        rule="one-hot",
        max_new_tokens=96,
    ),
    Preset(
        name="again",
        title=LocalText("Told again", "再讲一遍"),
        lesson=LocalText(
            "The first run finds little to copy: a story does not repeat itself. Press Run again: "
            "now its text is an earlier one of your session, and is copied in long stretches.",
            "第一次运行几乎没有可抄的内容：故事不会重复自己。再按一次运行："
            "这段文本已是本会话较早的文本，会一长段一长段地被抄写。",
        ),
        prompt=STORY,
        method="suffix",
        sampling=Sampling(temperature=0.0),
        rule="one-hot",
        max_new_tokens=60,
        runs_again=True,
    ),
    Preset(
        name="json",
        title=LocalText("JSON", "JSON"),
        lesson=LocalText(
            "Brackets, quotes and keys are certain, so even a tiny draft is accepted there; "
            "the values are where the target disagrees.",
            "括号、引号和键名几乎是确定的，很小的草稿模型也能猜中；分歧出现在具体的值上。",
        ),
        prompt=JSON,
        params={"num_speculative_tokens": 6},
        max_new_tokens=80,
    ),
    Preset(
        name="digits",
        title=LocalText("Random digits", "随机数字"),
        lesson=LocalText(
            "What follows random digits is random too: both laws are flat, and a match is luck. "
            "When the target then copies it back it is certain, and the small draft cannot follow.",
            "随机数字后面的内容也是随机的：两个分布都很平，猜中全凭运气。"
            "随后目标模型照抄时非常确定，而小草稿模型跟不上。",
        ),
        prompt=DIGITS,
        sampling=Sampling(temperature=1.0),
        max_new_tokens=48,
    ),
    Preset(
        name="bad-draft",
        title=LocalText("Bad draft", "差的草稿"),
        lesson=LocalText(
            "The draft samples at temperature 2 and guesses badly; "
            "the text still follows the target's law, only the speed is lost.",
            "草稿模型以温度 2 采样，猜得很差；输出仍然服从目标模型的分布，损失的只有速度。",
        ),
        prompt=STORY,
        params={"draft_temperature": 2.0},
        max_new_tokens=60,
    ),
    Preset(
        name="hot",
        title=LocalText("Temperature 1.5", "温度 1.5"),
        lesson=LocalText(
            "A hot target spreads its probability, and so does the draft: "
            "compare the overlap with that of the same story at 0.8.",
            "温度升高后，目标与草稿的概率都被摊开：与温度 0.8 的同一个故事比一比重叠有多大。",
        ),
        prompt=STORY,
        sampling=Sampling(temperature=1.5),
        max_new_tokens=60,
    ),
    Preset(
        name="chinese",
        title=LocalText("Chinese", "中文"),
        lesson=LocalText(
            "A Chinese character can take two or three tokens of bytes: "
            "once the first is there, the rest is nearly certain and is accepted.",
            "一个汉字可能由两三个字节词元组成：第一个出现后，其余几乎确定，因此会被接受。",
        ),
        prompt=CHINESE,
        max_new_tokens=60,
    ),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _PRESETS}
"""Every preset by name, in teaching order; the first one is what a new visitor sees."""
