"""Sixty plain sentences in eight themes, and their token ids for MiniLM-L6.

Each sentence is an item of its own length: nothing is padded, since padding costs bandwidth and
compute and changes no answer. Two sentences of one theme are about the same thing in other
words, so that a person can judge the nearest sentence that the model finds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.download import minilm_folder

THEMES: dict[str, tuple[str, ...]] = {
    "weather": (
        "Heavy rain is expected across the valley tonight.",
        "The forecast says it will rain hard until the morning.",
        "Snow closed the mountain road before noon.",
        "The pass is blocked because it snowed all night.",
        "Thick fog made it hard to see the harbour.",
        "The boats stayed in port until the fog lifted.",
        "Thunder and lightning woke everyone in the village.",
        "A loud thunderstorm passed over the town at three.",
    ),
    "cooking": (
        "Chop the onions and fry them slowly in butter.",
        "Add garlic to the pan and stir until it is golden.",
        "Let the dough rest for an hour before you bake it.",
        "Fresh bread smells best when it leaves the oven.",
        "The soup needs a little more salt and some pepper.",
        "Taste the broth and season it before serving.",
        "She roasted a chicken with lemon and thyme.",
        "We had roast chicken with potatoes for dinner.",
    ),
    "animals": (
        "The cat slept on the windowsill in the sun.",
        "A small kitten curled up on the warm blanket.",
        "Our dog barks whenever the postman comes.",
        "The puppy growls at every stranger at the door.",
        "Two horses grazed beside the wooden fence.",
        "The old mare and her foal stood in the meadow.",
        "Swallows build their nests under the roof each spring.",
        "The birds are feeding their young in the nest.",
    ),
    "travel": (
        "The train to the coast leaves from platform four.",
        "Trains to the seaside run every hour from this station.",
        "Our flight was delayed by three hours.",
        "The plane could not take off on time.",
        "Please show your passport at the border.",
        "The officer stamped my passport and let me into the country.",
        "The hotel had no rooms left when we arrived.",
    ),
    "money": (
        "The bank raised its interest rate again this month.",
        "Borrowing has become more expensive as interest rates rise.",
        "She saves a tenth of her wages every month.",
        "Put part of your salary into a savings account.",
        "The price of food has doubled in two years.",
        "Groceries cost twice as much as they used to.",
        "The bank pays little interest on savings.",
    ),
    "health": (
        "She has had a fever and a sore throat since Monday.",
        "He caught a cold and cannot stop coughing.",
        "A short walk every day is good for the heart.",
        "Regular exercise keeps your blood pressure low.",
        "The nurse changed the bandage on his arm.",
        "The doctor cleaned the wound and covered it.",
        "My back hurts after a long day at the desk.",
    ),
    "sport": (
        "The home team scored twice in the last ten minutes.",
        "A late goal gave the visitors the cup.",
        "She ran the marathon in under three hours.",
        "The runner won the long race and set a record.",
        "He won the tennis match after five long sets.",
        "The champion lost her tennis final on the clay court.",
        "The goalkeeper saved a penalty just before the whistle.",
    ),
    "computers": (
        "My laptop will not start after the update.",
        "The computer froze and I had to switch it off.",
        "She found the bug in the third line of the program.",
        "The code crashed because of a small programming mistake.",
        "Choose a long password and tell it to nobody.",
        "Never use the same password for two accounts.",
        "The internet is slow when everyone watches videos.",
        "Our wireless network drops the connection every evening.",
    ),
}
SENTENCES: tuple[str, ...] = tuple(sentence for theme in THEMES.values() for sentence in theme)

Feeds = dict[str, NDArray[Any]]


def tokenise(sentences: tuple[str, ...], cache: Path | None = None) -> list[Feeds]:
    """One item per sentence: `input_ids` and `attention_mask`, int64 [1, tokens].

    Raises `examples.download.DownloadFailed` if the tokeniser has to be fetched and cannot be.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_folder(cache) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    return [_feeds(encoding.ids) for encoding in tokenizer.encode_batch(list(sentences))]


def _feeds(ids: list[int]) -> Feeds:
    tokens = np.array([ids], np.int64)
    return {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}


def nearest(embeddings: NDArray[np.float32]) -> NDArray[np.int64]:
    """For each row of `embeddings` [n, width], each of length 1, the row most like it: [n]."""
    likeness = embeddings @ embeddings.T
    np.fill_diagonal(likeness, -np.inf)
    best: NDArray[np.int64] = np.argmax(likeness, axis=1)
    return best
