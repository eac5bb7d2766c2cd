"""Family `chinese`: simple stories, questions and lists in simplified Chinese."""

from __future__ import annotations

from speclab.training.corpus.grammar import Scribe, entries

NAMES = entries("小明 小红 小刚 小美 小龙 小花 小东 小文 小雨 小虎 小月 小山 小云 小天 小星")
ANIMALS = entries("小猫 小狗 小鸟 小马 白兔 小鱼 山羊 小鸡 小牛 小象 小鸭 小猪 老虎 小羊 黑猫")
PLACES = entries("山上 河边 学校 公园 海边 家里 花园 市场 树下 桥上 森林 车站 田里 湖边 门口")
THINGS = entries("球 书 帽子 花 风筝 雨伞 水杯 灯 画 铃 笔 船 衣服 地图 钥匙")
FOODS = entries("苹果 面包 米饭 牛奶 西瓜 鸡蛋 梨 鱼 面条 蜂蜜")
COLOURS = entries("红色 蓝色 白色 黑色 紫色 绿色 黄色")
WEATHER = entries("天气很好 下雨了 刮风了 天很冷 下雪了 太阳很大 天黑了")
TIMES = entries("今天 早上 晚上 有一天 傍晚 下午 星期天 春天 冬天 深夜")
MOODS = entries("高兴 难过 着急 害怕 惊讶 生气 累")

BEGIN = (
    "{time},{weather}。{hero}和{friend}去{place}玩。",
    "{time},{hero}在{place}看见一只{animal}。",
    "{hero}有一个{colour}的{thing},<他|她>很喜欢它。",
    "从前,有一个孩子叫{hero},住在{place}。",
    "那年{time},{hero}第一次来到{place}。",
    "{weather},{hero}很{mood},因为{thing}不见了。",
    "{time},妈妈给{hero}一个{colour}的{thing}。",
)
MIDDLE = (
    "{animal}说:“你好,<你要去哪里|我可以和你一起玩吗>?”",
    "{hero}说:“<我们一起去吧|请你帮帮我|我们去{place2}看看吧>。”",
    "{hero}找了很久,可是没有找到{thing}。",
    "{friend}<走过来|跑过来>,问:“你为什么{mood}?”",
    "谁也不知道那是什么声音。",
    "<忽然|这时候>,{weather},他们<跑到|走到>{place2}。",
    "{hero}给{animal}一些{food},{animal}<吃得很快|很高兴>。",
    "他们一起<吃{food}|唱歌|看书>,<玩了很久|说了很多话>。",
    "{friend}把{thing}给了{hero},说:“<给你|不用谢|这是你的>。”",
    "路又长又滑,可是他们没有停下。",
    "在{place2},他们<看见|找到>了{colour}的{thing}。",
    "原来,{animal}<在{place2}睡觉|拿走了{thing}>。",
)
FINISH = (
    "大家都很高兴。",
    "晚上,{hero}<回家了|高高兴兴地回家了>。",
    "从那天起,{hero}和{animal}<成了|就是>好朋友。",
    "{hero}说:“谢谢你,{friend}!”",
    "这件事{hero}一直没有忘记。",
    "{hero}<笑了|明白了>:朋友最重要。",
)
QUESTIONS = (
    ("{hero}有{a}个{food},又买了{b}个,一共有几个?", "一共有{sum}个。"),
    ("{a}加{b}等于几?", "{a}加{b}等于{sum}。"),
    ("{hero}在哪里?", "{hero}在{place}。"),
    ("你喜欢吃什么?", "我喜欢吃{food}。"),
    ("{thing}放在什么地方?", "放在{place}。"),
    ("{thing}是什么颜色的?", "{thing}是{colour}的。"),
    ("一个星期有几天?", "一个星期有七天。"),
    ("今天天气怎么样?", "今天{weather}。"),
    ("{hero}喜欢什么动物?", "{hero}喜欢{animal}。"),
    ("请问你叫什么名字?", "我叫{hero}。"),
    ("天上有什么?", "天上有太阳、月亮和星星。"),
    ("{big}减{b}等于几?", "{big}减{b}等于{a}。"),
)


def chinese_slots(scribe: Scribe) -> dict[str, str]:
    """Draw the characters, places, things and numbers of one text."""
    hero, friend = scribe.pick_distinct(NAMES, 2)
    place, place2 = scribe.pick_distinct(PLACES, 2)
    left, right = scribe.number(1, 10), scribe.number(1, 10)
    return {
        "hero": hero,
        "friend": friend,
        "place": place,
        "place2": place2,
        "animal": scribe.pick(ANIMALS),
        "thing": scribe.pick(THINGS),
        "food": scribe.pick(FOODS),
        "colour": scribe.pick(COLOURS),
        "weather": scribe.pick(WEATHER),
        "time": scribe.pick(TIMES),
        "mood": scribe.pick(MOODS),
        "a": str(left),
        "b": str(right),
        "sum": str(left + right),
        "big": str(left + right),
    }


def chinese_story(scribe: Scribe) -> str:
    """Return a story of three to seven sentences."""
    slots = chinese_slots(scribe)
    sentences = [scribe.expand(scribe.pick(BEGIN), slots)]
    for template in scribe.pick_distinct(MIDDLE, scribe.number(1, 4)):
        sentences.append(scribe.expand(template, slots))
    sentences.append(scribe.expand(scribe.pick(FINISH), slots))
    return "".join(sentences)


def chinese_document(scribe: Scribe) -> str:
    """Return a story (`故事:`), questions (`问:`, `答:`), a shopping list or a copy task."""
    kind = scribe.rng.choice(["story", "story", "story", "qa", "qa", "list", "copy"])
    if kind == "story":
        return f"故事:{chinese_story(scribe)}"
    if kind == "qa":
        lines = []
        for question, answer in scribe.pick_distinct(QUESTIONS, scribe.number(1, 4)):
            slots = chinese_slots(scribe)
            lines.append(f"问:{scribe.expand(question, slots)}\n答:{scribe.expand(answer, slots)}")
        return "\n".join(lines)
    if kind == "list":
        foods = scribe.pick_distinct(FOODS, scribe.number(2, 5))
        return "购物单:\n" + "\n".join(f"- {food}{scribe.number(1, 10)}个" for food in foods)
    story = chinese_story(scribe)
    return f"请再写一遍。\n原文:{story}\n再写:{story}"
