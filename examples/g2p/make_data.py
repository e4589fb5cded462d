"""Write words of an invented language with their pronunciation: CNTK text files, and the lists of letters and phones.

python make_data.py [FOLDER]

Spelling follows rules, but not one letter at a time: what a letter stands for depends on those after it (`c` before `e`
and `i`), before it (`s` between vowels), on a silent `e` at the other side of a consonant, and on where in the word it
is (short vowels lose their colour after the first syllable).
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

START, END = "<s>", "</s>"
LONGEST = 16
"""Phones that a decoder may give, with the end."""

ONSETS = ["b", "br", "c", "ch", "cl", "d", "dr", "f", "g", "gl", "h", "k", "l", "m", "n", "p", "ph", "pr", "qu", "r"]
ONSETS += ["s", "sh", "st", "t", "th", "tr", "v", "w", "y", "z"]
NUCLEI = ["a", "e", "i", "o", "u"] * 3 + ["ai", "ea", "ee", "oa", "oo", "igh", "ou"]
CODAS = ["", "", "", "b", "ck", "ll", "m", "n", "ng", "r", "ss", "sh", "st", "tch", "x"]
LAST_CODAS = [*CODAS, "*e", "*e", "*e", "y"]
"""How a word may end; after `*` comes a consonant and a silent e."""

SHORT = {"a": "AE", "e": "EH", "i": "IH", "o": "AA", "u": "AH"}
LONG = {"a": "EY", "e": "IY", "i": "AY", "o": "OW", "u": "UW"}
SINGLE = {"b": "B", "d": "D", "f": "F", "h": "HH", "k": "K", "l": "L", "m": "M", "n": "N", "p": "P", "r": "R"}
SINGLE |= {"t": "T", "v": "V", "w": "W", "z": "Z"}
DULL = "AX"

# The first rule that fits at a place of the word is taken: what stands there, and what is said.
RULES: list[tuple[str, list[str]]] = [
    (r"tch|ch", ["CH"]),
    (r"sh", ["SH"]),
    (r"th", ["TH"]),
    (r"ph", ["F"]),
    (r"qu", ["K", "W"]),
    (r"ck", ["K"]),
    (r"ng(?![aeiou])", ["NG"]),
    (r"x", ["K", "S"]),
    (r"igh", ["AY"]),
    (r"ai", ["EY"]),
    (r"e[ae]", ["IY"]),
    (r"oa", ["OW"]),
    (r"oo", ["UW"]),
    (r"ou", ["AW"]),
    (r"y(?=[aeiou])", ["Y"]),
    (r"y", ["IY"]),
    (r"c(?=[ei])", ["S"]),
    (r"c", ["K"]),
    (r"g(?=[ei])", ["JH"]),
    (r"g", ["G"]),
    (r"s+(?<=[aeiou]s)(?=[aeiou])", ["Z"]),
    (r"s+", ["S"]),
    (r"e(?<=[aeiou][^aeiou]e)$", []),
]
RULES += [(rf"{vowel}(?=[^aeiou]e$)", [said]) for vowel, said in LONG.items()]
RULES += [(rf"{letter}+", [said]) for letter, said in SINGLE.items()]
PATTERNS = [(re.compile(text), said) for text, said in RULES]
LETTERS = [END, *"abcdefghiklmnopqrstuvwxyz"]
PHONES = [START, END, DULL, *sorted({one for _, said in RULES for one in said} | set(SHORT.values()))]


def pronounce(word: str) -> list[str]:
    """Return the phones of a word."""
    phones: list[str] = []
    place = syllables = 0
    while place < len(word):
        found = ((match, said) for rule, said in PATTERNS if (match := rule.match(word, place)))
        match, said = next(found, (None, []))
        if match is None:
            # A short vowel: the only letters without a rule.
            said = [SHORT[word[place]] if syllables < 1 else DULL]
        place = match.end() if match else place + 1
        syllables += sum(one in LONG.values() or one in SHORT.values() for one in said)
        phones += said
    return phones


def make_word(source: random.Random) -> str:
    """Return a word of one to three syllables."""
    count = source.choice([1, 2, 2, 3])
    word = ""
    for left in range(count - 1, -1, -1):
        coda = source.choice(CODAS if left else LAST_CODAS)
        word += source.choice(ONSETS) + source.choice(NUCLEI) + coda.replace("*", source.choice("bdgklmnptvz"))
    return word


def make_words(count: int, seed: int) -> list[str]:
    """Return different words that a decoder can finish, with at most 14 letters."""
    source = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        word = make_word(source)
        if len(word) <= 14 and len(pronounce(word)) < LONGEST:
            words[word] = None
    return list(words)


def lines_of(number: int, letters: list[str], phones: list[str]) -> list[str]:
    """Return a sequence of the text format: two streams, of different length."""
    rows = [""] * max(len(letters), len(phones))
    for symbols, known, stream in ((letters, LETTERS, "letters"), (phones, PHONES, "phones")):
        for row, symbol in enumerate(symbols):
            rows[row] += f" |{stream} {known.index(symbol)}:1"
    return [f"{number}{row}" for row in rows]


def write_set(path: Path, words: list[str], *, secret: bool = False) -> None:
    """Write words with their phones; if these are secret, with a start and as many ends as a decoder may take steps."""
    lines = []
    for number, word in enumerate(words):
        phones = [END] * LONGEST if secret else [*pronounce(word), END]
        lines += lines_of(number, [*word, END], [START, *phones])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(folder: Path, train: int = 4000, test: int = 300) -> None:
    """Write train.ctf, test.ctf, decode.ctf, test.txt (words with phones), letters.txt and phones.txt."""
    words = make_words(train + test, seed=1)
    tested = words[train:]
    write_set(folder / "train.ctf", words[:train])
    write_set(folder / "test.ctf", tested)
    write_set(folder / "decode.ctf", tested, secret=True)
    texts = {
        "test.txt": [f"{word}\t{' '.join(pronounce(word))}" for word in tested],
        "letters.txt": LETTERS,
        "phones.txt": PHONES,
    }
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
