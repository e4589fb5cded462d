"""Strategies are made with the aggregations that they want; one block has the options of all."""

from __future__ import annotations

import pytest

from cntk_core.config import option, options, parse_text
from cntk_core.contract.parallel import GradientAggregation, Parallelizer
from cntk_core.errors import CntkError, WrongResult
from cntk_core.plugins.strategies import make_strategy


@options
class StrategyOptions:
    sum: str = option(default="plain", doc="The aggregation.")
    rounds: int = option(default=1, doc="How often.")


@options
class BitOptions:
    bits: int = option(default=32, doc="Of a value.")
    rounds: int = option(default=7, doc="How often it rounds.")


class Plain(GradientAggregation):
    requires_api = "1.0"

    def aggregate(self, gradients, header, communicator):
        pass


class Bits(Plain):
    options = BitOptions


class Sums(Parallelizer):
    requires_api = "1.0"
    options = StrategyOptions

    @classmethod
    def needs(cls, options):
        return (options.sum,)


def made(text: str, kind: type[Parallelizer] = Sums):
    return make_strategy(kind, parse_text(text, file="r.cntk"), "Sums", {"plain": Plain, "bits": Bits}.__getitem__)


def test_each_has_its_options_and_shares_those_of_one_name():
    strategy = made("sum=bits\nrounds=3\nbits=1\n")
    assert strategy.settings == StrategyOptions(sum="bits", rounds=3)
    assert list(strategy.aggregations) == ["bits"]
    assert type(strategy.aggregations["bits"]) is Bits
    assert strategy.aggregations["bits"].settings == BitOptions(bits=1, rounds=3)


def test_without_options_there_are_those_of_before():
    strategy = made("sum=bits\n")
    assert strategy.settings == StrategyOptions(sum="bits")
    assert strategy.aggregations["bits"].settings == BitOptions()


def test_options_that_nobody_has_are_refused():
    with pytest.raises(CntkError) as caught:
        made("bits=1\n")
    assert "parallelizer 'Sums'" in str(caught.value)
    assert "bits" in str(caught.value)


@pytest.mark.parametrize("answer", ["plain", None, (1,), {"plain"}])
def test_what_is_no_list_of_names(answer):
    class Wrong(Sums):
        @classmethod
        def needs(cls, options):
            return answer

    with pytest.raises(WrongResult, match=r"not a tuple of names of aggregations$"):
        made("", Wrong)
