"""The store of a session: bounded, one vocabulary's, seen through views that never change."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError

import pytest

from speclab.core.earlier_texts import EarlierTexts, Texts, TextStore, Workshop


def test_the_oldest_texts_are_dropped_first() -> None:
    store = TextStore("toy", max_texts=3, max_tokens=10)
    for text in ((1,) * 4, (2,) * 3, (3,) * 2):
        store.add(text)
    assert store.snapshot().texts == ((1,) * 4, (2,) * 3, (3,) * 2)
    store.add((4,) * 4)
    assert store.snapshot().texts == ((2,) * 3, (3,) * 2, (4,) * 4), "three texts, nine tokens"
    store.add((5,) * 5)
    assert store.snapshot().texts == ((4,) * 4, (5,) * 5), "ten tokens"
    assert len(store) == 2 and store.snapshot().num_tokens == 9


def test_a_text_that_is_too_long_keeps_its_end_and_an_empty_one_is_none() -> None:
    store = TextStore("toy", max_tokens=3)
    store.add(())
    assert len(store) == 0
    store.add([1, 2, 3, 4, 5])
    assert store.snapshot().texts == ((3, 4, 5),)


def test_a_view_stays_as_it_was() -> None:
    store = TextStore("toy")
    store.add((1, 2))
    view = store.snapshot()
    store.add((3,))
    assert view.texts == ((1, 2),) and store.snapshot().texts == ((1, 2), (3,))
    with pytest.raises(FrozenInstanceError):
        view.texts = ()  # type: ignore[misc]


def test_keys_are_equal_only_for_equal_texts_of_one_vocabulary() -> None:
    def key(vocabulary: str, *texts: tuple[int, ...]) -> str:
        store = TextStore(vocabulary)
        for text in texts:
            store.add(text)
        return store.snapshot().key

    assert key("toy", (1, 2), (3,)) == key("toy", (1, 2), (3,))
    different = [
        key("toy"),
        key("toy", (1, 2), (3,)),
        key("toy", (1,), (2, 3)),
        key("toy", (3,), (1, 2)),
        key("toy", (1, 2, 3)),
        key("pocket", (1, 2), (3,)),
    ]
    assert len(set(different)) == len(different)


def test_threads_lose_no_text_and_mix_none() -> None:
    store = TextStore("toy", max_texts=400, max_tokens=10_000)

    def add(user: int) -> None:
        for count in range(50):
            store.add((user,) * (1 + count % 5))
            store.snapshot()

    threads = [threading.Thread(target=add, args=(user,)) for user in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = store.snapshot().texts
    assert len(texts) == 400 and all(len(set(text)) == 1 for text in texts)


# --- what is built from the texts -------------------------------------------------------------


def joined(old: list[int] | None, texts: Texts) -> list[int]:
    """Build a list of all tokens, and leave the old one as it is."""
    return [*(old or []), *(token for text in texts for token in text)]


class Builder:
    """`joined`, with the calls noted."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, Texts]] = []

    def __call__(self, old: list[int] | None, texts: Texts) -> list[int]:
        self.calls.append((old is not None, texts))
        return joined(old, texts)


def test_each_state_of_a_store_is_built_once_and_from_the_one_before() -> None:
    store, build = TextStore("toy", max_texts=3), Builder()
    assert store.snapshot().built("list", build) == []
    for text in ((1, 2), (3,)):
        store.add(text)
    first, again = (store.snapshot().built("list", build) for _ in range(2))
    assert first is again and first == [1, 2, 3]
    store.add((4,))
    assert store.snapshot().built("list", build) == [1, 2, 3, 4] and first == [1, 2, 3]
    store.add((5,))
    assert store.snapshot().built("list", build) == [3, 4, 5], "the oldest text was dropped"
    assert build.calls == [
        (False, ()),
        (True, ((1, 2), (3,))),
        (True, ((4,),)),
        (False, ((3,), (4,), (5,))),
    ]


def test_other_keys_other_stores_and_older_views_get_their_own() -> None:
    one, other, build = TextStore("toy"), TextStore("toy"), Builder()
    for store in (one, other):
        store.add((1, 2))
    view = one.snapshot()
    mine = view.built("list", build)
    assert other.snapshot().built("list", build) is not mine, "equal texts of another session"
    assert view.built("set", build) is not mine and len(build.calls) == 3
    one.add((3,))
    assert one.snapshot().built("list", build) == [1, 2, 3]
    assert view.built("list", build) == [1, 2], "a run that began before"
    assert one.snapshot().workshop is not other.snapshot().workshop
    assert view == EarlierTexts(vocabulary="toy", texts=((1, 2),)), "what is kept is no text"
    alone = EarlierTexts(vocabulary="toy", texts=((1, 2),))
    assert alone.built("list", build) == alone.built("list", build) == [1, 2]
    assert alone.built("list", build) is not alone.built("list", build)


def test_one_thing_is_kept_and_none_that_is_too_large() -> None:
    workshop, build = Workshop(most=3), Builder()
    small, large = ((1, 2),), ((1, 2), (3, 4))
    assert workshop.built("list", small, build) is workshop.built("list", small, build)
    assert workshop.built("list", large, build) == [1, 2, 3, 4]
    assert workshop._kept is None, "nor what it was made from"
    assert workshop.built("list", large, build) == [1, 2, 3, 4]
    assert [was_there for was_there, _ in build.calls] == [False, True, False]


def test_threads_that_build_at_once_get_the_same_numbers() -> None:
    store, found = TextStore("toy", max_texts=4), []

    def use(user: int) -> None:
        for count in range(50):
            store.add((user,) * (1 + count % 5))
            view = store.snapshot()
            found.append(view.built("list", joined) == joined(None, view.texts))

    threads = [threading.Thread(target=use, args=(user,)) for user in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 300 and all(found)
