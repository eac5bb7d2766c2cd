"""Plots of the stories: beats, each with many ways to say it, and one-sentence summaries.

Slots: `hero`, `friend`, `elder`, `animal`, `thing`, `place`, `place2`, `food`, `colour`, `size`,
`mood`, `good`, `weather`, `time`, `material`; `he/his/him` for the hero, `fhe/fhis` for the friend.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot: its beats in order, how to summarise it, and questions with short answers."""

    name: str
    beats: tuple[tuple[str, ...], ...]
    summaries: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]


OPENINGS = (
    "{time}, {hero} <walked|went|wandered> to the {place}.",
    "there <was once|once was> a {good} child called {hero}, who lived near the {place}.",
    (
        "{hero} lived <in a <small|big|quiet|stone> house|with {elder}> "
        "<by|behind|close to> the {place}."
    ),
    "it was a {weather} day, and {hero} was {mood}.",
    (
        "the {weather} weather had kept {hero} indoors <all week|for three days>, but "
        "now the door stood open."
    ),
    "{hero} and {friend} were <best friends|neighbours|cousins> and did everything together.",
    (
        "{time}, when it was {weather}, {hero} <sat|stood|waited> <alone|quietly> "
        "<at|near> the {place}."
    ),
    "everyone <in the village|near the {place}> knew {hero}, because {he} was so {good}.",
    "{hero} woke up {mood}. It was {weather} outside, and {he} wanted to go to the {place}.",
    "nobody at the {place} had ever met a child as {good} as {hero}.",
)

FEELINGS = (
    "{hero} felt {mood}<.| and did not know why.| and a little {mood2}.>",
    '"I am so {mood}," said {hero}.',
    "{his} heart <beat fast|was heavy|felt light>.",
    "{he} <took a deep breath|closed {his} eyes|counted to ten> and <thought|waited|listened>.",
    "for a long moment {hero} only listened to the wind over the {place}.",
    "the air smelled of <rain|smoke|{food}|grass>.",
    "<a {animal2}|a {colour} bird|an old man> <watched|looked on> <from far away|without a word>.",
)

ENDINGS = (
    (
        "from that day on, {hero} <never forgot|always remembered> <to be {good}|what "
        "{elder} had said>."
    ),
    "{hero} went home <{mood3}|slowly|singing> and slept <well|until morning>.",
    "that evening they all ate {food} <together|by the fire|and laughed>.",
    "and {hero} <smiled|laughed>, because <now|at last> everything was <well|in its place> again.",
    "years later, people at the {place} still told the tale of {hero} and the {thing}.",
    (
        '"<thank you|you are a true friend|that was {good} of you>," said {friend}<.|, '
        "and they walked home.>"
    ),
    (
        "the next day <the sun shone|it was {weather} again>, and {hero} <went "
        "back|returned> to the {place}."
    ),
    (
        "{hero} learned that <a {good} heart is worth more than a {thing}|asking for "
        "help is not hard|it is good to share>."
    ),
)

LOST = Plot(
    name="lost",
    beats=(
        (
            "but <then|when {he} looked> the {colour} {thing} was <gone|missing>!",
            "{he} reached for {his} {colour} {thing}, but it was not there.",
            '"where is my {thing}?" {he} cried. The {colour} {thing} was <gone|lost>.',
            "on the way {he} lost {his} {colour} {thing}, which {elder} had given {him}.",
            "only at noon did {hero} notice that the {colour} {thing} had slipped away.",
        ),
        (
            (
                "{he} looked <under the bed|behind the door|in every box>, but <found "
                "nothing|it was not there>."
            ),
            (
                "{he} searched the {place} <twice|from end to end>, but <found only "
                "{food}|there was no {thing}>."
            ),
            (
                '{he} asked {elder}. "<I have not seen it|no, I am sorry>," <said|answered> '
                '{elder}. "<Ask {friend}|Look near the {place2}>."'
            ),
            (
                '{hero} ran to {friend}. "<Did you see|Have you seen> my {thing}?" "<No|Not '
                'today>," said {friend}, "but <I will help you|let us look together>."'
            ),
            "no drawer, no pocket and no corner was left unturned.",
        ),
        (
            (
                "then {friend} <saw|noticed> <tracks|a trail> in the <mud|snow|sand>. They "
                "<led|went> to the {place2}."
            ),
            "together they followed the <path|road|tracks> to the {place2}.",
            (
                "a {animal} came by. It <held something|had something> {colour} <in its "
                "mouth|on its back> and ran to the {place2}."
            ),
            "so {hero} and {friend} went to the {place2}, <step by step|as fast as they could>.",
            "at dusk a {animal} called to them from beyond the {place2}.",
        ),
        (
            (
                "there, <under a stone|behind a tree|in the grass>, lay the {thing}. The "
                "{animal} had <taken it for its nest|hidden it>."
            ),
            "and there was the {thing}! A {animal} <was sleeping on it|sat beside it>.",
            (
                "the {animal} had found the {thing} and kept it <safe|warm|dry>. {hero} gave "
                "it some {food}, and it gave the {thing} back."
            ),
            (
                "{friend} <laughed|pointed>. The {thing} was <hanging from a branch|in the "
                "water>, and a {animal} <looked at it|played with it>."
            ),
            "a {animal} had been guarding the {thing} all along.",
        ),
    ),
    summaries=(
        "{hero} lost a {colour} {thing} and found it at the {place2}.",
        "{hero} and {friend} searched for a lost {thing}, and a {animal} had it.",
        "A {animal} took {hero}'s {thing} to the {place2}, but {he} got it back.",
        "With the help of {friend}, {hero} found {his} {thing} again.",
        "The lost {thing} of {hero} turned up near a {animal}.",
    ),
    questions=(
        ("What did {hero} lose?", "A {colour} {thing}."),
        ("Where was the {thing}?", "At the {place2}."),
        ("Which animal had the {thing}?", "A {animal}."),
    ),
)

RESCUE = Plot(
    name="rescue",
    beats=(
        (
            (
                "near the {place} {he} heard a <cry|small voice>. A {animal} was <stuck in a "
                "hole|caught in a net|trapped under a log>."
            ),
            (
                "there {he} <saw|found> a {animal} that <had hurt its leg|could not move|was "
                "cold and hungry>."
            ),
            '"help me!" <called|cried> a {animal}. It had <fallen into the water|lost its way>.',
            "a {animal} lay <in the road|under a bush> and <did not move|looked at {him}>.",
            "out of the reeds came the faint sobbing of a {animal}.",
        ),
        (
            "{hero} was {mood}, but {he} <wanted to help|did not run away>.",
            '"<do not worry|stay calm>," said {hero}. "I will <help|save> you."',
            (
                '"<wait here|hold on>," said {hero}, and ran to <{elder}|{friend}> to <ask '
                "for|get> a {thing}."
            ),
            "{he} gave the {animal} some {food} and <spoke softly|sat down beside it>.",
            "without a second thought {hero} rolled up {his} sleeves.",
        ),
        (
            "with the {thing}, {he} <pulled|lifted> the {animal} <out|to safety>.",
            (
                "{he} used the {colour} {thing} to <free|carry> the {animal}. It took a long "
                "time, but <it worked|at last it was done>."
            ),
            (
                "first {he} tried with {his} hands, but <that was too hard|{he} was too weak>. "
                "Then {he} used the {thing}, and the {animal} was free."
            ),
            (
                '{friend} came and held the {thing} while {hero} <pulled|pushed>. "One, two, '
                'three!" And the {animal} was <free|safe>.'
            ),
            "inch by inch the {thing} did its work, until the {animal} stood on dry ground.",
        ),
        (
            (
                "a week later, {hero} got lost <in the fog|in the dark> near the {place2}. The "
                "{animal} came and <showed {him} the way home|led {him} home>."
            ),
            (
                '"<thank you|I will not forget this>," said the {animal}, and it showed {him} '
                "a <secret path|hidden door> behind the {place2}."
            ),
            (
                "the {animal} <followed|went with> {him} home, and <since then|from then on> "
                "they were friends."
            ),
            (
                "the next morning there was <a gift|some {food}> <at the door|on the step>. It "
                "was from the {animal}."
            ),
            "and when winter came, it was the {animal} who kept {him} company.",
        ),
    ),
    summaries=(
        "{hero} helped a {animal} with a {thing}, and they became friends.",
        "{hero} saved a {animal} near the {place}.",
        "A {animal} in trouble was saved by {hero}, who used a {thing}.",
        "Because {hero} was {good}, a {animal} was saved.",
        "Thanks to a {thing}, {hero} could free a {animal}.",
    ),
    questions=(
        ("Who helped the {animal}?", "{hero}."),
        ("What did {hero} use?", "A {thing}."),
        ("Which animal was in trouble?", "A {animal}."),
    ),
)

QUARREL = Plot(
    name="quarrel",
    beats=(
        (
            "{hero} and {friend} found a {colour} {thing} <near|at> the {place}.",
            "{elder} gave {hero} and {friend} one {colour} {thing} to share.",
            "there was only one {thing}, and both {hero} and {friend} wanted it.",
            "{friend} had a new {colour} {thing}, and {hero} wanted to <try|hold> it.",
            "between {hero} and {friend} lay a single {colour} {thing}.",
        ),
        (
            (
                '"it is mine!" said {hero}. "No, <I saw it first|it is mine>!" <said|shouted> '
                "{friend}."
            ),
            "they <both pulled|pulled and pulled>, and the {thing} <broke|fell into the mud>.",
            '"<give it to me|let go>!" cried {friend}. {hero} <shook {his} head|held it tight>.',
            "{friend} <turned away|ran off> and did not <speak|look back>. {hero} was <sad|angry>.",
            "harsh words flew back and forth like sparrows.",
        ),
        (
            '{elder} <heard|saw> them and asked, "<what is wrong|why do you fight>?"',
            (
                '{elder} <sat down|came by> and said, "<a {thing} is nothing without a '
                'friend|there is time for both of you>."'
            ),
            (
                'after a while, {hero} <felt sorry|thought about it>. "<I was wrong|I am '
                'sorry>," {he} said.'
            ),
            (
                "at the {place2}, {friend} sat alone <and ate {food}|and cried>. {hero} "
                "<went|walked> over slowly."
            ),
            "that night neither of them could sleep.",
        ),
        (
            (
                "so they <took turns|shared it>: {hero} had the {thing} in the morning, and "
                "{friend} in the evening."
            ),
            "they <mended|fixed> the {thing} with {material}, and it was better than before.",
            (
                '"<you can have it|take it>," said {hero}. "No," said {friend}, "<let us use '
                'it together|it belongs to both of us>."'
            ),
            "they gave the {thing} to {elder}, and played with a {animal} instead.",
            "in the end they traded the {thing} for some {food} and split it in half.",
        ),
    ),
    summaries=(
        "{hero} and {friend} quarrelled about a {thing} but made peace.",
        "Two friends fought over a {colour} {thing} and learned to share.",
        "{hero} said sorry to {friend} after a fight about a {thing}.",
        "{elder} helped {hero} and {friend} to share a {thing}.",
        "A fight over a {thing} ended well for {hero} and {friend}.",
    ),
    questions=(
        ("What did {hero} and {friend} want?", "A {colour} {thing}."),
        ("Who wanted the {thing}?", "{hero} and {friend}."),
        ("What colour was the {thing}?", "It was {colour}."),
    ),
)

MAKING = Plot(
    name="making",
    beats=(
        (
            "{he} wanted to make a {thing} out of {material} for {friend}.",
            '"today I will build a {thing}," said {hero}. "{friend} <needs|wants> one."',
            (
                "it was almost the birthday of {friend}, and {hero} had no gift. So {he} "
                "decided to make a {thing}."
            ),
            (
                "{hero} had seen a {colour} {thing} at the {place}, but {he} had no money. "
                '"Then I will make one <of {material}|myself>," {he} said.'
            ),
            "the old {thing} had fallen apart, so a new one had to be made.",
        ),
        (
            (
                "first {he} <needed|looked for> {material}. {he} found some <near|behind> the "
                "{place2}."
            ),
            "{elder} gave {him} some {material} <for free|for a bag of {food}>.",
            "{he} went to the {place2} and <asked|looked> for {material}.",
            "{he} <drew a plan|made a list> and <got|found> a bit of {material}.",
            "scraps of {material} lay about everywhere, and {hero} gathered them up.",
        ),
        (
            "the first {thing} <broke|was too {size}|fell over>. {hero} <sighed|did not give up>.",
            (
                "it was hard. <Twice|Three times> it <broke|failed>, and {hero} <started "
                "again|was sad>."
            ),
            'then the wind <blew it away|knocked it down>. "<oh no|not again>!" {he} cried.',
            (
                '"<try it like this|go slowly>," said {elder}, and <showed {him} how|held the '
                "{material}>."
            ),
            "for hours nothing fitted and nothing held.",
        ),
        (
            (
                "at last the {thing} was <done|ready>. It was {colour} and {size}, and "
                "{friend} loved it."
            ),
            'in the evening it was ready. "<it is beautiful|how lovely>," said {friend}.',
            "this time it <worked|held>! {friend} <clapped|laughed> and <took|tried> the {thing}.",
            "when {friend} saw the {thing}, {fhe} <hugged {him}|could not believe it>.",
            "so the {thing} was finished after all, and {friend} could not stop smiling.",
        ),
    ),
    summaries=(
        "{hero} made a {thing} of {material} for {friend}.",
        "After some failures, {hero} finished a {colour} {thing} for {friend}.",
        "{hero} did not give up and built a {thing}.",
        "With {material} and help, {hero} made a gift for {friend}.",
        "A {thing} made by {hero} made {friend} happy.",
    ),
    questions=(
        ("What did {hero} make?", "A {thing}."),
        ("For whom was the {thing}?", "For {friend}."),
        ("What was it made of?", "Of {material}."),
    ),
)

FIRST_PLOTS = (LOST, RESCUE, QUARREL, MAKING)
