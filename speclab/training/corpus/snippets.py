"""Family `code`: small Python functions, classes, loops and calls with printed results."""

from __future__ import annotations

from speclab.training.corpus import words
from speclab.training.corpus.grammar import Scribe, entries

NOUNS = entries(
    "items numbers words lines labels names values keys scores digits prices rows cells parts "
    "pages files users points steps ticks sizes ages tokens letters orders coins boxes days lists "
    "tables"
)
VERBS = entries(
    "count sum find sort list get make join split filter check merge read print collect"
)
CLASSES = entries(
    "Box Stack Counter Basket Robot Timer Account Garden Queue Lantern Player Shelf Team"
)
ATTRIBUTES = entries("size name count level rank speed colour limit score weight")

FUNCTIONS = (
    # total
    '''def {verb}_{xs}({xs}):
    """Return the sum of {xs}."""
    total = 0
    for {x} in {xs}:
        total += {x}
    return total''',
    # filter
    '''def {verb}_{xs}({xs}, limit={n}):
    """Return all {xs} that are {cmpword} the limit."""
    result = []
    for {x} in {xs}:
        if {x} {cmp} limit:
            result.append({x})
    return result''',
    # comprehension
    '''def {verb}_{xs}({xs}):
    """Return each {x} {opword} {n}."""
    return [{x} {op} {n} for {x} in {xs}]''',
    # count
    '''def count_{xs}({xs}):
    """Count how often each {x} occurs."""
    counts = {lb}{rb}
    for {x} in {xs}:
        counts[{x}] = counts.get({x}, 0) + 1
    return counts''',
    # held out
    '''def {verb}_{xs}({xs}):
    """Return {xs} in reverse."""
    return list(reversed({xs}))''',
    # largest
    '''def {verb}_largest_{x}({xs}):
    """Return the largest {x}, or None."""
    best = None
    for {x} in {xs}:
        if best is None or {x} > best:
            best = {x}
    return best''',
    # predicate
    '''def is_{word}({x}):
    """Return True if the {x} is {cmpword} {n}."""
    if {x} {cmp} {n}:
        return True
    return False''',
    # arithmetic
    '''def {verb}_{x}({x}, {y}={n}):
    """Return {x} {opword} {y}."""
    result = {x} {op} {y}
    return result''',
    # while
    '''def {verb}_{xs}(limit={n}):
    """Print {xs} up to the limit."""
    {x} = 0
    while {x} < limit:
        print({x})
        {x} += {m}''',
    # held out
    '''def {verb}_{x}({x}):
    """Return {x} as text, or an empty string."""
    return str({x}) if {x} is not None else ""''',
    # recursion
    '''def {verb}_{word}({x}):
    """Return the {word} of {x}, by recursion."""
    if {x} <= 1:
        return 1
    return {x} * {verb}_{word}({x} - 1)''',
    # dict
    '''def {verb}_{xs}({xs}):
    """Return a dict from each {x} to its length."""
    return {lb}{x}: len({x}) for {x} in {xs}{rb}''',
    # file
    '''def read_{xs}(path):
    """Return the {xs} of a file."""
    with open(path) as file:
        {xs} = [line.strip() for line in file]
    return {xs}''',
    # enumerate
    '''def print_{xs}({xs}):
    """Print each {x} with its index."""
    for i, {x} in enumerate({xs}):
        print(i, {x})''',
)

CLASS_BODIES = (
    '''class {cls}:
    """A {word} with {a} and {b}."""

    def __init__(self, {a}, {b}={n}):
        self.{a} = {a}
        self.{b} = {b}

    def add_{b}(self, {x}):
        """Add {x} to the {b}."""
        self.{b} += {x}
        return self.{b}''',
    '''class {cls}:
    """Holds {xs}."""

    def __init__(self):
        self.{xs} = []

    def add(self, {x}):
        """Add one {x}."""
        self.{xs}.append({x})

    def {verb}(self):
        """Return the number of {xs}."""
        return len(self.{xs})''',
    '''class {cls}:
    """A {word} that can be {a} {n}."""

    def __init__(self, {a}={n}):
        self.{a} = {a}

    def show(self):
        """Print the {a}."""
        print("{a}:", self.{a})''',
    '''class {cls}:
    """Counts {xs} up to a limit."""

    def __init__(self, limit={n}):
        self.limit = limit
        self.{xs} = 0

    def is_full(self):
        """Return True if there is no room."""
        return self.{xs} >= self.limit''',
    '''class {cls}(dict):
    """A dict of {xs} with a default."""

    def __missing__(self, key):
        return {n}''',
)


def singular(noun: str) -> str:
    """Return the singular of one of `NOUNS`."""
    return "box" if noun == "boxes" else noun[:-1]


def code_slots(scribe: Scribe) -> dict[str, str]:
    """Draw identifiers, numbers and operators."""
    noun, other = scribe.pick_distinct(NOUNS, 2)
    a, b = scribe.pick_distinct(ATTRIBUTES, 2)
    compare, compare_word = scribe.rng.choice(
        [(">", "above"), ("<", "below"), (">=", "at least"), ("<=", "at most")]
    )
    operator, operator_word = scribe.rng.choice([("+", "plus"), ("-", "minus"), ("*", "times")])
    return {
        "x": singular(noun),
        "y": singular(other),
        "xs": noun,
        "a": a,
        "b": b,
        "verb": scribe.pick(VERBS),
        "word": scribe.pick(words.THINGS),
        "cls": scribe.pick(CLASSES),
        "n": str(scribe.number(1, 20)),
        "m": str(scribe.number(1, 5)),
        "cmp": compare,
        "cmpword": compare_word,
        "op": operator,
        "opword": operator_word,
        "lb": "{",
        "rb": "}",
    }


def fill(template: str, slots: dict[str, str]) -> str:
    """Fill `{slot}` marks of a code template; nothing else is touched."""
    protected = {key: value for key, value in slots.items() if key not in ("lb", "rb")}
    for key, value in protected.items():
        template = template.replace("{" + key + "}", value)
    return template.replace("{lb}", "{").replace("{rb}", "}")


def snippet(scribe: Scribe) -> str:
    """Return one function, class or script without a marker."""
    slots = code_slots(scribe)
    if scribe.chance(0.2):
        return fill(scribe.pick(CLASS_BODIES), slots)
    if scribe.chance(0.2):
        return script(scribe)
    return fill(scribe.pick(FUNCTIONS), slots)


def script(scribe: Scribe) -> str:
    """Return a loop over a literal list with the output it prints."""
    slots = code_slots(scribe)
    kind = scribe.rng.choice(["numbers", "names", "sum", "lengths"])
    if kind == "names":
        values = scribe.pick_distinct(words.GIRLS + words.BOYS, scribe.number(2, 4))
        body = 'for name in names:\n    print("Hello, " + name)'
        shown = "\n".join(f"# Hello, {value}" for value in values)
        return f"names = {values!r}\n{body}\n{shown}".replace("'", '"')
    numbers = [scribe.number(1, 20) for _ in range(scribe.number(2, 5))]
    if kind == "sum":
        return f"{slots['xs']} = {numbers}\nprint(sum({slots['xs']}))\n# {sum(numbers)}"
    if kind == "lengths":
        value = scribe.pick(words.THINGS)
        shown = f"# {len(value)}\nprint(word.upper())\n# {value.upper()}"
        return f'word = "{value}"\nprint(len(word))\n{shown}'
    doubled = "\n".join(f"# {number * 2}" for number in numbers)
    x = slots["x"]
    return f"{slots['xs']} = {numbers}\nfor {x} in {slots['xs']}:\n    print({x} * 2)\n{doubled}"


def code_document(scribe: Scribe) -> str:
    """Return `# Python` and one to three snippets."""
    parts = [snippet(scribe) for _ in range(scribe.rng.choice([1, 1, 2, 3]))]
    return "# Python\n" + "\n\n\n".join(dict.fromkeys(parts))
