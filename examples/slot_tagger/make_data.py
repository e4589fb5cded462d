"""Write sentences of people who ask for flights, with a tag for each word: train.ctf, test.ctf, words.txt and tags.txt.

The sentences come from the grammar below. As in the ATIS corpus, a phrase such as "new york" in "from new york" is
tagged B-fromloc I-fromloc, and words outside of phrases are tagged O. Some cities are rare: words that occur only once
in the training sentences are replaced by <unk>, and so are those that occur in the test sentences alone.

python make_data.py
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from pathlib import Path

GRAMMAR = {
    "sentence": [
        "{ask} {flights} {route}", "{ask} {flights} {route} {when}", "{ask} {flights} {route} {when} {wish}",
        "{ask} {wish} {flights} {route}", "{ask} {airline:airline} {flights} {route} {when}",
        "{ask} {flights} {when} {route}", "{ask} a {class:class} ticket {route} {when}", "{cheap} {flights} {route}",
        "i want to {travel} {route} {when}", "i need to be in {city:toloc} {before} {from_} {city:fromloc}",
        "i live in {city:fromloc} and want to {travel} to {city:toloc} {when}", "{city:fromloc} to {city:toloc} {when}",
        "{city:toloc} from {city:fromloc} please", "which airlines {travel} {route}",
        "does {airline:airline} {travel} {route} {when}", "how much is a {class:class} ticket {route}",
        "what meals are on flight {number:flight_number} {route}", "is flight {number:flight_number} on time {when}",
        "what time does flight {number:flight_number} {leave} {city:fromloc}",
        "what time does flight {number:flight_number} arrive in {city:toloc}",
        "{ask} the {return:round_trip} fare {route}", "{ask} ground transportation in {city:city}",
        "{ask} {flights} {route} with a stop in {city:stoploc}", "{ask} {flights} {route} via {city:stoploc} {when}",
    ],
    "ask": [
        "show me", "show me", "please list", "list", "i would like", "give me", "find", "what are the", "are there",
    ],
    "flights": ["flights", "flights", "all flights", "the flights", "a flight", "nonstop flights"],
    "cheap": ["{price:cost} fares for", "what are the {price:cost}"],
    "price": ["cheapest", "lowest priced", "most expensive"],
    "wish": ["on {airline:airline}", "in {class:class} class", "serving {meal:meal}", "with {meal:meal}"],
    "route": [
        "{from_} {city:fromloc} {to} {city:toloc}", "{from_} {city:fromloc} {to} {city:toloc}",
        "{to} {city:toloc} {from_} {city:fromloc}", "between {city:fromloc} and {city:toloc}",
        "leaving {city:fromloc} and going to {city:toloc}", "out of {city:fromloc} into {city:toloc}",
    ],
    "from_": ["from", "from", "leaving from", "departing"],
    "to": ["to", "to", "to", "arriving in", "going to"],
    "when": [
        "on {day:depart_day}", "{part:depart_part}", "on {day:depart_day} {part:depart_part}",
        "on {month:depart_month} {number_of_day:depart_number}", "leaving {after} {time:depart_time}",
        "{day:depart_day} {after} {time:depart_time}", "arriving {after} {time:arrive_time}",
        "{before}", "that {leave} {part:depart_part}", "that {arrive} {part:arrive_part}",
        "leaving {day:depart_day} and returning {day:return_day}",
    ],
    "before": ["arriving {after} {time:arrive_time}", "arriving on {day:arrive_day}", "arriving {part:arrive_part}"],
    "after": ["after", "before", "around", "at"],
    "part": ["in the {half}", "in the {half}", "tonight", "tomorrow", "today"],
    "half": ["morning", "afternoon", "evening"],
    "leave": ["leave", "depart"],
    "arrive": ["arrive", "get in"],
    "travel": ["fly", "travel", "go"],
    "time": ["{hour} am", "{hour} pm", "{hour} o'clock", "noon", "midnight"],
    "hour": [str(number) for number in range(1, 13)],
    "day": ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
    "month": ["january", "march", "april", "may", "june", "july", "august", "october", "december"],
    "number_of_day": [
        "first", "second", "third", "fifth", "tenth", "twelfth", "twentieth", "twenty first", "thirtieth",
    ],
    "number": [str(number) for number in range(101, 1000, 37)],
    "class": ["first", "business", "economy", "coach"],
    "meal": ["breakfast", "lunch", "dinner", "a snack"],
    "return": ["round trip", "one way", "return"],
    "airline": ["american", "american airlines", "continental", "delta", "lufthansa", "northwest", "united airlines"],
}  # fmt: skip
"""What a symbol may become; ``{symbol:tag}`` is a phrase that gets a tag."""

NAMES = """
boston:denver:atlanta:dallas:pittsburgh:baltimore:san francisco:philadelphia:washington:oakland:new york:chicago:
milwaukee:charlotte:los angeles:saint louis:phoenix:houston:cleveland:detroit:las vegas:kansas city:newark:
memphis:san diego:orlando:seattle:toronto:montreal:miami:minneapolis:nashville:tacoma:long beach:salt lake city:
indianapolis:cincinnati:columbus:burbank:tampa:westchester county:san jose:fort worth:ontario:louisville:
new orleans:tucson:portland:omaha:boise:santa fe:little rock:el paso:buffalo:rochester:anchorage:honolulu:
el centro:green bay:grand rapids:baton rouge:corpus christi:des moines:sioux falls:cedar rapids:palm springs:
santa barbara:colorado springs:fort wayne:long island:key west:jackson hole:saint paul:saint petersburg:fargo
"""
CITIES = re.split(r":\s*", NAMES.strip())
"""From frequent to rare ones."""

UNKNOWN = "<unk>"


def expand(symbol: str, source: random.Random) -> list[tuple[str, str]]:
    """Return words and tags of a sentence, or of a part of one."""
    if symbol == "city":
        weights = [(rank + 2) ** -2.5 for rank in range(len(CITIES))]
        text = source.choices(CITIES, weights)[0]
    else:
        text = source.choice(GRAMMAR[symbol])
    found = []
    for word in text.split():
        if not word.startswith("{"):
            found.append((word, "O"))
            continue
        part, _, tag = word[1:-1].partition(":")
        inner = expand(part, source)
        if tag:
            inner = [(one, f"{'I' if place else 'B'}-{tag}") for place, (one, _) in enumerate(inner)]
        found += inner
    return found


def sentences(count: int, seed: int) -> list[list[tuple[str, str]]]:
    """Return tagged sentences."""
    source = random.Random(seed)
    return [expand("sentence", source) for _ in range(count)]


def write(path: Path, data: list[list[tuple[str, str]]], words: dict[str, int], tags: dict[str, int]) -> None:
    """Write CNTK's text format: one word on a line, one number for each sentence."""
    with path.open("w", encoding="utf-8") as file:
        for number, sentence in enumerate(data):
            for word, tag in sentence:
                file.write(f"{number} |word {words.get(word, words[UNKNOWN])}:1 |tag {tags[tag]}:1 |# {word} {tag}\n")


def main() -> None:
    """Write all files into the current folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=4000, help="training sentences")
    parser.add_argument("--test", type=int, default=800, help="test sentences")
    options = parser.parse_args()
    train, test = sentences(options.train, seed=1), sentences(options.test, seed=2)
    counts = Counter(word for sentence in train for word, _ in sentence)
    vocabulary = [UNKNOWN, *sorted(word for word, count in counts.items() if count > 1)]
    all_tags = sorted({tag for sentence in (*train, *test) for _, tag in sentence})
    words, tags = ({name: number for number, name in enumerate(names)} for names in (vocabulary, all_tags))
    Path("words.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    Path("tags.txt").write_text("\n".join(all_tags) + "\n", encoding="utf-8")
    write(Path("train.ctf"), train, words, tags)
    write(Path("test.ctf"), test, words, tags)
    print(f"{len(train)} and {len(test)} sentences, {len(vocabulary)} words, {len(all_tags)} tags")


if __name__ == "__main__":
    main()
