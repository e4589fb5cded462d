"""Write text with a trained model: it says how likely each next character is, and one is drawn.

python sample.py
python sample.py --begin "The import statement" --temperature 0.5 --length 600
"""

from __future__ import annotations

import argparse

import numpy as np
from make_data import ALPHABET

from cntk_core.model import Model


def sample(model: Model, begin: str, length: int, temperature: float, seed: int) -> str:
    """Return a text that begins in a certain way.

    Args:
        model: a trained model.
        begin: characters that it reads first.
        length: how many characters it adds.
        temperature: below 1 it prefers what is likely, above 1 it is more adventurous.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    stream = model.stream(["z"])
    text = begin
    new = "\n" + begin
    for _ in range(length):
        (scores,) = stream.feed({"char": [[ALPHABET.index(character) for character in new]]})["z"]
        chances = np.exp((scores[-1] - scores[-1].max()).astype(np.float64) / temperature)
        new = ALPHABET[random.choice(len(ALPHABET), p=chances / chances.sum())]
        text += new
    return text


def main() -> None:
    """Print a text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="run/charlm.dnn")
    parser.add_argument("--begin", default="The ")
    parser.add_argument("--length", type=int, default=400)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(sample(Model.load(options.model), options.begin, options.length, options.temperature, options.seed))


if __name__ == "__main__":
    main()
