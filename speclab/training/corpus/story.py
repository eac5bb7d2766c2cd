"""Family `story`: short stories with named characters; other families ask about them."""

from __future__ import annotations

from dataclasses import dataclass

from speclab.training.corpus import words
from speclab.training.corpus.grammar import Scribe
from speclab.training.corpus.plots import ENDINGS, FEELINGS, FIRST_PLOTS, OPENINGS, Plot
from speclab.training.corpus.plots_more import MORE_PLOTS

PLOTS = (*FIRST_PLOTS, *MORE_PLOTS)

TITLES = (
    "{hero} and the {thing}",
    "The {colour} {thing}",
    "The <lost|old|last> {thing}",
    "{hero} at the {place}",
    "The {animal} of the {place2}",
    "The Secret of the {place2}",
    "{hero} and {friend}",
    "The {good} child",
    "A {weather} day",
    "The {thing} and the {animal}",
)


SMALL_WORDS = ("a", "an", "and", "at", "of", "the")


def title_case(text: str) -> str:
    """Capitalise all words of a title but the small ones."""
    head, *rest = text.split(" ")
    return " ".join([head, *(w if w in SMALL_WORDS else w[0].upper() + w[1:] for w in rest)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A story with what other families ask about it."""

    title: str
    text: str
    summary: str
    questions: tuple[tuple[str, str], ...]


def cast_of(scribe: Scribe) -> dict[str, str]:
    """Draw the characters, places and things of one story."""
    girl, friend_girl = scribe.chance(0.5), scribe.chance(0.5)
    hero = scribe.pick(words.GIRLS if girl else words.BOYS)
    friend = hero
    while friend == hero:
        friend = scribe.pick(words.GIRLS if friend_girl else words.BOYS)
    place, place2 = scribe.pick_distinct(words.PLACES, 2)
    thing, thing2 = scribe.pick_distinct(words.THINGS, 2)
    animal, animal2 = scribe.pick_distinct(words.ANIMALS, 2)
    mood, mood2, mood3 = scribe.pick_distinct(words.MOODS, 3)
    return {
        "hero": hero,
        "friend": friend,
        "he": "she" if girl else "he",
        "his": "her" if girl else "his",
        "him": "her" if girl else "him",
        "fhe": "she" if friend_girl else "he",
        "fhis": "her" if friend_girl else "his",
        "fhim": "her" if friend_girl else "him",
        "place": place,
        "place2": place2,
        "thing": thing,
        "thing2": thing2,
        "animal": animal,
        "animal2": animal2,
        "mood": mood,
        "mood2": mood2,
        "mood3": mood3,
        "elder": scribe.pick(words.ELDERS),
        "food": scribe.pick(words.FOODS),
        "colour": scribe.pick(words.COLOURS),
        "size": scribe.pick(words.SIZES),
        "material": scribe.pick(words.MATERIALS),
        "weather": scribe.pick(words.WEATHERS),
        "time": scribe.pick(words.TIMES),
        "good": scribe.pick(words.GOODNESS),
    }


def tell(scribe: Scribe, *, short: bool = False) -> Story:
    """Write one story: opening, the plot's beats, feelings in between, an ending."""
    plot: Plot = scribe.rng.choice(PLOTS)
    cast = cast_of(scribe)
    sentences = [scribe.say(OPENINGS, cast)]
    if not short and scribe.chance(0.4):
        sentences.append(scribe.say(FEELINGS, cast))
    for beat in plot.beats:
        sentences.append(scribe.say(beat, cast))
        if not short and scribe.chance(0.3):
            sentences += [scribe.say(beat, cast)] if scribe.chance(0.3) else []
            sentences.append(scribe.say(FEELINGS, cast))
    sentences.append(scribe.say(ENDINGS, cast))
    unique = list(dict.fromkeys(sentences))
    if short:
        text = " ".join(unique)
    else:
        cut = scribe.number(2, max(2, len(unique) - 2))
        text = " ".join(unique[:cut]) + "\n" + " ".join(unique[cut:])
    questions = tuple((scribe.say(q, cast), scribe.say(a, cast)) for q, a in plot.questions)
    return Story(
        title=title_case(scribe.say(TITLES, cast)),
        text=text,
        summary=scribe.say(plot.summaries, cast),
        questions=tuple((q, a) for q, a in questions if a.strip(".").lower() in text.lower()),
    )


def story_document(scribe: Scribe) -> str:
    """Return `Story: <title>` and the text of a story, or the bare text."""
    story = tell(scribe)
    return story.text if scribe.chance(0.35) else f"Story: {story.title}\n{story.text}"
