"""The store of a session: bounded, one vocabulary's, seen through views that never change."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError

import pytest

from speclab.core.earlier_texts import TextStore


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
