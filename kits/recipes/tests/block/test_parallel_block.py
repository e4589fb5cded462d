"""The block parallelTrain: strategies and their aggregations, and every mistake with its exact text."""

from __future__ import annotations

import attrs
import pytest

from cntk_core.config import Schedule, option, options, parse_text
from cntk_core.contract.parallel import GradientAggregation, Parallelizer
from cntk_core.errors import CntkError
from cntk_core.plugins.registry import Registry
from cntk_kit_recipes.block.parallel_block import ParallelOptions, read_parallel


@options
class SumOptions:
    bits: Schedule[int] = option(default=Schedule.constant(32))


class Sums(Parallelizer):
    requires_api = "1.0"
    options = SumOptions

    @classmethod
    def needs(cls, options):
        return ("coarse",) if options.bits[0] < 32 else ()


@options
class BlockOptions:
    local_method: str = option(default="")


class Blocks(Parallelizer):
    requires_api = "1.0"
    options = BlockOptions
    reduces_gradients = False
    saves_inside = True


class Apart(Parallelizer):
    requires_api = "1.0"
    options = SumOptions
    reduces_gradients = False
    saves_inside = True


@options
class CoarseOptions:
    keep_residual: bool = option(default=True, aliases=("residual",))


class Coarse(GradientAggregation):
    requires_api = "1.0"
    options = CoarseOptions

    def aggregate(self, gradients, header, communicator):
        """Nothing."""


@pytest.fixture
def tables():
    registry = Registry()
    registry.parallelizers.add("SumSGD", Sums)
    registry.parallelizers.add("BlockSGD", Blocks)
    registry.parallelizers.add("ApartSGD", Apart)
    registry.aggregations.add("coarse", Coarse)
    return registry.parallelizers, registry.aggregations


def block(text):
    return parse_text(f"SGD=[\n{text}\n]", file="r.cntk").section("SGD")


def read(text, tables):
    return read_parallel(block(f"parallelTrain=[\n{text}\n]"), *tables)


def message(text, tables):
    with pytest.raises(CntkError) as caught:
        read(text, tables)
    return str(caught.value)


def test_defaults(tables):
    found = read("parallelizationMethod=sumsgd", tables)
    assert isinstance(found.parallelizer, Sums)
    assert found.parallelizer.aggregations == {}
    assert attrs.astuple(found.settings) == (1, True, 600.0, 30.0, 0, 0)


def test_all_keys(tables):
    found = read(
        "ParallelizationMethod=SumSGD; parallelizationStartEpoch=3; distributedMBReading=false; syncPerfStats=5\n"
        "communicationTimeout=20; stallReportAfter=2.5; checkParametersEvery=7",
        tables,
    )
    assert attrs.astuple(found.settings) == (3, False, 20.0, 2.5, 7, 5)


@pytest.mark.parametrize("text", ["", "parallelTrain=true", "parallelTrain=[ parallelizationMethod=none ]"])
def test_no_strategy(text, tables):
    found = read_parallel(block(text), *tables)
    assert (found.name, found.parallelizer) == ("", None)


def test_a_strategy_and_its_aggregation_share_a_block(tables):
    text = "parallelizationMethod=SumSGD; SumSGD=[ bits=1 ; residual=false ]; OtherSGD=[ anything=1 ]"
    strategy = read(text, tables).parallelizer
    assert strategy.settings.bits[4] == 1
    assert isinstance(strategy.aggregations["coarse"], Coarse)
    assert strategy.aggregations["coarse"].settings.keep_residual is False


def test_a_strategy_inside_of_workers(tables):
    """It is named, and has a block of its own beside the options of the other one."""
    found = read("parallelizationMethod=BlockSGD; BlockSGD=[ localMethod=ApartSGD ; ApartSGD=[ bits=64 ] ]", tables)
    assert isinstance(found.parallelizer, Blocks)
    assert isinstance(found.parallelizer.local, Apart)
    assert found.parallelizer.local.settings.bits[0] == 64
    plain = read("parallelizationMethod=BlockSGD; BlockSGD=[ LocalMethod=apartsgd ]", tables).parallelizer
    assert plain.local.settings.bits[0] == 32
    assert not hasattr(read("parallelizationMethod=BlockSGD", tables).parallelizer, "local")


@pytest.mark.parametrize("inner", ["SumSGD", "BlockSGD"])
def test_what_ranks_of_a_worker_cannot_do(tables, inner):
    """Sums of gradients need no name, and blocks inside of blocks have no end."""
    assert message(f"parallelizationMethod=BlockSGD; BlockSGD=[ localMethod={inner} ]", tables) == (
        f"r.cntk:3:56: localMethod={inner}: the ranks of a worker cannot learn so\n"
        "    Without localMethod they sum their gradients in each step; gradientBits=1 sends few bits of them."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "parallelizationMethod=SumSGD; parallelisationStartEpoch=2",
            "r.cntk:3:31: the block parallelTrain has no option 'parallelisationStartEpoch'; "
            "did you mean 'parallelizationStartEpoch'?",
        ),
        (
            "parallelizationMethod=SumSGD; SumSGD=[ bits=32 ; residual=false ]",
            "r.cntk:3:50: parallelizer 'SumSGD' has no option 'residual'\n    Options: bits",
        ),
        (
            "parallelizationMethod=SumSGD; SumSGD=[ bits=1 ; residul=false ]",
            "r.cntk:3:49: parallelizer 'SumSGD' has no option 'residul'",
        ),
        (
            "parallelizationMethod=BlockMomentumSGD",
            "r.cntk:3:1: no parallelizer named 'BlockMomentumSGD'",
        ),
        (
            "parallelizationMethod=SumSGD; parallelizationStartEpoch=0",
            "r.cntk:2:1: the block parallelTrain: parallelizationStartEpoch is counted from 1",
        ),
        (
            "parallelizationMethod=SumSGD; syncPerfStats=-1",
            "r.cntk:2:1: the block parallelTrain: syncPerfStats and checkParametersEvery must not be negative",
        ),
        (
            "parallelizationMethod=SumSGD; communicationTimeout=0",
            "r.cntk:2:1: the block parallelTrain: communicationTimeout and stallReportAfter must be more than 0",
        ),
    ],
)
def test_mistakes(text, expected, tables):
    assert message(text, tables).startswith(expected)


def test_numbers_that_are_too_small():
    for key, least, told in (
        ("parallelization_start_epoch", 1, "parallelizationStartEpoch is counted from 1"),
        ("min_ranks", 1, "minRanks is at least 1"),
        ("sync_perf_stats", 0, "syncPerfStats and checkParametersEvery must not be negative"),
        ("check_parameters_every", 0, "syncPerfStats and checkParametersEvery must not be negative"),
    ):
        assert getattr(ParallelOptions(**{key: least}), key) == least
        with pytest.raises(ValueError, match=f"^{told}$"):
            ParallelOptions(**{key: least - 1})
    for key in ("communication_timeout", "stall_report_after"):
        assert ParallelOptions(**{key: 1e-9})
        with pytest.raises(ValueError, match=r"^communicationTimeout and stallReportAfter must be more than 0$"):
            ParallelOptions(**{key: 0.0})
