"""More plots: journeys, mysteries, fears and trades. The slots are those of `plots`."""

from __future__ import annotations

from speclab.training.corpus.plots import Plot

JOURNEY = Plot(
    name="journey",
    beats=(
        (
            "{elder} asked {him} to bring a {thing} to {friend}, who lived beyond the {place2}.",
            "{he} had a {colour} {thing} that had to be at the {place2} <before dark|by noon>.",
            '"take this {thing} to {friend}," said {elder}. "{fhe} <waits|lives> at the {place2}."',
            (
                "a letter came: {friend} was ill, and only the {thing} could help. {hero} set "
                "out for the {place2}."
            ),
            "the {thing} had to cross the hills to {friend} without delay.",
        ),
        (
            (
                "on the way it <began to rain|got dark|grew cold>, and the <road|path> was "
                "<wet|hard to see>."
            ),
            (
                'halfway there, a {animal} stood in the road. "<where are you going|may I come '
                'along>?" it asked.'
            ),
            "at the {place} the bridge was broken, so {he} had to <go around|find another way>.",
            "{he} <ate some {food}|sat down to rest> and <fell asleep|looked at the sky>.",
            "soon the signposts stopped and the nettles began.",
        ),
        (
            "the {animal} <knew|showed {him}> a short way past the {place}.",
            "{hero} <hid|waited> in a barn until the storm was over.",
            (
                '"<I can not go on|I am too tired>," {he} said. But then {he} thought of '
                "{friend}, and <went on|got up>."
            ),
            "{he} tied the {thing} to {his} back and <climbed|swam|ran> <on|without a word>.",
            "a lantern swung in the distance, and {hero} walked towards it.",
        ),
        (
            (
                "at last {he} came to the {place2}. {friend} <opened the door|was there> and "
                "took the {thing} with a smile."
            ),
            "when {he} <arrived|got there>, {friend} <was waiting|had made {food}>.",
            '{friend} held up the {thing} and <said|cried>, "<you did it|now all will be well>!"',
            "just <in time|before dark>, {he} gave {friend} the {thing}.",
            "the {thing} was wet but whole, and {friend} wept for joy.",
        ),
    ),
    summaries=(
        "{hero} brought a {thing} to {friend} at the {place2}.",
        "After a hard journey, {hero} gave {friend} the {thing}.",
        "{hero} went to the {place2} to help {friend}.",
        "A {animal} met {hero} on the way to the {place2}.",
        "In spite of everything the {thing} reached {friend}.",
    ),
    questions=(
        ("What did {hero} bring?", "A {thing}."),
        ("Where did {hero} go?", "To the {place2}."),
        ("Who got the {thing}?", "{friend}."),
    ),
)

MYSTERY = Plot(
    name="mystery",
    beats=(
        (
            (
                "every night there was a strange <noise|light> at the {place}. Nobody knew "
                "<why|what it was>."
            ),
            "for three days, {food} had <gone missing|vanished> from the {place2}.",
            '"there is a ghost at the {place}," said {friend}. "I <heard|saw> it!"',
            "in the night {hero} heard <a knock|steps|music>. It came from the {place}.",
            "someone was leaving muddy footprints all over the {place}.",
        ),
        (
            '"<let us find out|I will go and look>," said {hero}, and took a {thing}.',
            "{hero} asked {elder}, but {elder} only <shook the head|laughed>.",
            "so {hero} and {friend} <hid|waited> behind the {place2} <with a {thing}|all night>.",
            "{friend} was afraid, but {hero} <took a {thing} and went first|was not>.",
            "a plan was made, and a {thing} was set as a trap.",
        ),
        (
            (
                "at midnight something <moved|came>. It was {colour}, and it had <big "
                "eyes|long ears|a tail>."
            ),
            "then they saw a shadow. It was {size}, and it <came closer|carried {food}>.",
            "there was a <crash|bang|cry>, and the {thing} fell down.",
            "step by step they went closer. The <noise|light> <grew|came> <louder|nearer>.",
            "a cold draught blew the candle out.",
        ),
        (
            "it was only a {animal}! It had <made its home there|been hungry>.",
            '"it is just a {animal}," <laughed|said> {hero}. "It <wants {food}|is alone>."',
            (
                'out came a {animal} with <three|four|five> young ones. "<so that is '
                'it|look>!" said {friend}.'
            ),
            "the ghost was a {animal} <under a blanket|with a bell on its neck>.",
            "and so the great riddle was solved: a {animal}, nothing more.",
        ),
    ),
    summaries=(
        "{hero} found out that the ghost at the {place} was a {animal}.",
        "A strange noise at the {place} came from a {animal}.",
        "{hero} and {friend} waited at night and saw a {animal}.",
        "The mystery of the {place} was only a {animal}.",
        "A {animal} had frightened everybody near the {place}.",
    ),
    questions=(
        ("What was the ghost?", "A {animal}."),
        ("Where was the strange noise?", "At the {place}."),
        ("Who was with {hero}?", "{friend}."),
    ),
)

FEAR = Plot(
    name="fear",
    beats=(
        (
            "but {hero} was afraid of <the dark|deep water|loud noises|big dogs>.",
            (
                "all the children <swam in the lake|climbed the hill|sang on the stage>, but "
                "{hero} did not dare."
            ),
            (
                '"<come with us|jump|it is easy>," said {friend}. "I can\'t," said {hero}. "I '
                'am afraid."'
            ),
            "at the {place2} there was a <dark|deep> hole, and {hero} would never go near it.",
            "only one thing made {hero} tremble, and it was thunder.",
        ),
        (
            (
                '{elder} gave {him} a {colour} {thing}. "<hold it when you are afraid|it will '
                'help you>," said {elder}.'
            ),
            (
                '"everyone is afraid <of something|sometimes>," said {elder}. "<even I|even a '
                '{animal}>."'
            ),
            (
                '{friend} <took {his} hand|stayed close>. "<we will go together|I am here>," '
                "{fhe} said."
            ),
            "every day {he} went one step <closer|further>, with the {thing} in {his} hand.",
            "a {thing} was tied to {his} wrist for courage.",
        ),
        (
            (
                "one day a {animal} <fell in|got lost there>. There was no time <to be "
                "afraid|to wait>."
            ),
            "then the {animal} of {friend} ran <away|into the dark>, and only {hero} saw it.",
            "suddenly {he} heard {friend} <call|cry> for help near the {place2}.",
            "and then, when {he} <least expected it|did not think about it>, {he} had to do it.",
            "the hour came sooner than anyone had thought.",
        ),
        (
            (
                "{hero} <ran|jumped|went in>, and <it was not so bad|nothing bad happened>. "
                "The {animal} was safe."
            ),
            '{he} held the {thing} <tight|high> and went on. "I did it!" {he} cried.',
            (
                'when it was over, {he} <laughed|sat down>. "I <was afraid|am still afraid>, '
                'but I did it," {he} said.'
            ),
            '{elder} <nodded|smiled>. "<that is what brave means|now you know>."',
            "after that the thing that had frightened {hero} seemed quite small.",
        ),
    ),
    summaries=(
        "{hero} was afraid but learned to be brave.",
        "With a {thing} from {elder}, {hero} lost {his} fear.",
        "{hero} was afraid, but {he} helped when it mattered.",
        "{friend} and {elder} helped {hero} to be brave.",
        "Courage came to {hero} at the right moment.",
    ),
    questions=(
        ("What did {elder} say about fear?", "That everyone is afraid of something."),
        ("Was {hero} brave in the end?", "Yes, {he} was."),
        ("Who was the friend of {hero}?", "{friend}."),
    ),
)

TRADE = Plot(
    name="trade",
    beats=(
        (
            "{he} had only a {colour} {thing}, and {he} was hungry. So {he} went to the market.",
            "{hero} wanted a {animal}, but {he} had only an old {thing}.",
            '"sell this {thing} and buy {food}," said {elder}.',
            "{hero} had <two|three|four> coins and wanted to buy a {thing} for {friend}.",
            "the purse was empty, and the {thing} was the last thing of value in the house.",
        ),
        (
            (
                "a man <gave|offered> {him} a bag of {food} for the {thing}. {hero} <thought "
                "about it|said yes>."
            ),
            (
                '"<that is not enough|it is too little>," said {friend}. "<Ask for more|Wait a '
                'little>."'
            ),
            (
                'at the {place2} an old woman <looked at|wanted> the {thing}. "I will give you '
                'a {animal} for it," she said.'
            ),
            '{elder} said, "I <need|like> that {thing}. <What do you want for it|How much is it>?"',
            "offers came and went the whole day long.",
        ),
        (
            "so {hero} <gave away|traded> the {thing} and got <a {animal}|a sack of {food}>.",
            '"<it is a deal|good>," said {hero}, and they shook hands.',
            (
                "but on the way home the sack <broke|had a hole>, and <almost nothing|very "
                "little> was left."
            ),
            (
                "then {he} met {friend}, who <had nothing to eat|was {mood}>. {hero} gave "
                "{fhim} half of the {food}."
            ),
            "at sunset the bargain was struck.",
        ),
        (
            (
                "{friend} was so {mood3} that {fhe} gave {him} a {thing2}. It was <better|even "
                "nicer> than the {thing}."
            ),
            (
                'at home {elder} <laughed|said>, "<you have done well|a friend is worth more '
                'than a {thing}>."'
            ),
            "in the end {hero} had no {thing}, but {he} had a <friend|good meal>.",
            "the next day the {food} <grew|tasted good>, and there was enough for <all|both>.",
            "so it was that a {thing} became a feast.",
        ),
    ),
    summaries=(
        "{hero} traded a {thing} at the market.",
        "{hero} gave away a {thing} and shared the {food} with {friend}.",
        "{hero} went to the market with a {thing} and came back with {food}.",
        "For a {colour} {thing}, {hero} got more than {he} hoped.",
        "A {thing} was traded, and nobody was sorry.",
    ),
    questions=(
        ("What did {hero} trade?", "A {thing}."),
        ("What food is in the story?", "{food}."),
        ("Who met {hero}?", "{friend}."),
    ),
)

MORE_PLOTS = (JOURNEY, MYSTERY, FEAR, TRADE)
