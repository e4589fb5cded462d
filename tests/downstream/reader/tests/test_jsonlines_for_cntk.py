import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonlines_for_cntk import JsonLines, JsonLinesOptions

from cntk_core.api import DataError, EpochSpec, ReaderContext
from cntk_testing import PackagingContract, ReaderContract


def write(file: Path, samples: int) -> None:
    rows = ({"features": [n, n / 2], "label": n % 3} for n in range(samples))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class TestJsonLines(ReaderContract):
    samples = 230

    @pytest.fixture
    def reader_factory(self, tmp_path: Path) -> Callable[[], JsonLines]:
        write(tmp_path / "samples.jsonl", self.samples)
        options = JsonLinesOptions(file=tmp_path / "samples.jsonl", dim=2, classes=3)
        return lambda: JsonLines(options, ReaderContext())


class TestPackaging(PackagingContract):
    distribution = "jsonlines-for-cntk"
    kind = "reader"


@pytest.mark.parametrize("line", ["7", "{", '{"features": 1, "label": 0}', '{"features": [1, 2], "label": 3}'])
def test_wrong_data(tmp_path: Path, line: str) -> None:
    write(tmp_path / "samples.jsonl", 3)
    with (tmp_path / "samples.jsonl").open("a", encoding="utf-8") as file:
        file.write(line)
    reader = JsonLines(JsonLinesOptions(file=tmp_path / "samples.jsonl", dim=2, classes=3), ReaderContext())
    assert [str(error.where) for error in reader.check()] == [f"{tmp_path / 'samples.jsonl'}:4"]
    with pytest.raises(DataError):
        list(reader.minibatches(EpochSpec()))
    reader.close()
