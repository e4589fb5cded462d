"""Initial values: distributions, fans, matrices from files, seeds."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import BuildError, CntkError, DataError, Location, NetworkError, Problems, ShapeError
from cntk_core.network.initializers import FixedValue, fans, initialize_parameters, numbered
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_kit_builders.first_values.initializers import (
    RANDOM_KINDS,
    Bilinear,
    FromFile,
    FromLiteral,
    Random,
    initializer,
)
from cntk_kit_builders.first_values.random_numbers import fill_uniform

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)


def widths(fan_in: int, fan_out: int) -> dict[str, float]:
    """Bounds of the uniform kinds and deviations of the others, from the table of the reference."""
    return {
        "uniform": 0.05,
        "uniform1": 1.0,
        "gaussian": 0.2 / math.sqrt(fan_in),
        "normal": 1.0,
        "xavier": math.sqrt(3 / fan_in),
        "glorotUniform": math.sqrt(6 / (fan_in + fan_out)),
        "glorotNormal": math.sqrt(2 / (fan_in + fan_out)),
        "heUniform": math.sqrt(6 / fan_in),
        "heNormal": math.sqrt(2 / fan_in),
        "truncNormal": 0.8796,  # deviation of the normal distribution cut at two deviations
    }


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_the_spread_is_that_of_the_table(kind: str, dtype: np.dtype) -> None:
    values = initializer(kind, scale=3.0)((300, 200), dtype, 7)
    assert values.dtype == dtype
    assert values.shape == (300, 200)
    width = 3.0 * widths(300, 200)[kind]
    uniform = RANDOM_KINDS[kind].family == "uniform"
    assert abs(values.mean()) < 0.02 * width
    assert values.std() == pytest.approx(width / math.sqrt(3) if uniform else width, rel=0.02)
    if uniform:
        assert 0.99 * width < np.abs(values).max() <= width * (1 + 1e-6)
    if kind == "truncNormal":
        assert 5.9 < np.abs(values).max() <= 6.0


def test_values_depend_on_the_seed_alone() -> None:
    make = Random("gaussian")
    assert np.array_equal(make((4, 5), F32, 3), make((4, 5), F32, 3))
    assert not np.array_equal(make((4, 5), F32, 3), make((4, 5), F32, 4))
    assert np.all(np.isfinite(make((4, 5), F32, -1)))


def test_the_scale_of_random_numbers() -> None:
    assert not Random("gaussian", 0.0)((2, 3), F32, 1).any()
    made = network(Parameter.make("a", (2, 3), Random("uniform", -1.0), where=Location("r.cntk", 1, 2)))
    with pytest.raises(BuildError) as error:
        initialize_parameters(made)
    assert str(error.value) == (
        "r.cntk:1:2: initValueScale = -1 is no scale of random numbers\n    It must be 0 or greater; 0 gives zeros."
    )


@pytest.mark.parametrize(("dtype", "width"), [(F32, 0.05), (F64, 0.05000000074505806)])
def test_uniform_numbers_have_the_width_of_single_precision(dtype: np.dtype, width: float) -> None:
    """The original keeps the width in single precision; in double precision this shows."""
    values = Random("uniform")((500, 400), dtype, 5)
    wanted = np.empty((500, 400), dtype)
    fill_uniform(wanted, -width, width, 5)
    assert np.array_equal(values, wanted)


def test_numbered_gives_seeds_to_random_ones_that_have_none() -> None:
    assert numbered(Random("normal"), lambda: 4) == Random("normal", seed=4)
    assert numbered(Random("normal", seed=2), lambda: 4) == Random("normal", seed=2)
    assert numbered(FixedValue(1.0), lambda: 4) == FixedValue(1.0)


def test_large_parameters_are_drawn_in_place() -> None:
    shape = (1000, 500)
    for kind in ("uniform", "truncNormal"):
        tracemalloc.start()
        Random(kind)(shape, F32, 1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.7 * 4 * shape[0] * shape[1]


@pytest.mark.parametrize(
    ("cntk_dims", "filter_rank", "output_rank", "expected"),
    [
        ((5, 4), 0, 1, (4, 5)),
        ((5,), 0, 1, (1, 5)),
        ((5, 4), 0, -1, (5, 4)),
        ((3, 3, 16, 32), 2, -1, (9 * 16, 9 * 32)),
        ((3, 3, 32, 16), 2, 1, (9 * 16, 9 * 32)),
        ((6, 2, 7), 0, 2, (7, 12)),
    ],
)
def test_fans_follow_cntk_axes(
    cntk_dims: tuple[int, ...], filter_rank: int, output_rank: int, expected: tuple[int, int]
) -> None:
    assert fans(tuple(reversed(cntk_dims)), filter_rank, output_rank) == expected


def test_fans_need_enough_axes() -> None:
    with pytest.raises(ShapeError) as error:
        fans((4, 5), 2, 1)
    assert str(error.value) == "a filter rank of 2 and an output rank of 1 need more axes than [5 x 4] has"


def test_bilinear_of_three() -> None:
    values = Bilinear(3, 3)((2, 2, 3, 3), F64, 0)
    tent = np.array([[0.25, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 0.25]])
    assert np.array_equal(values[0, 0], tent)
    assert np.array_equal(values[1, 1], tent)
    assert not values[0, 1].any()
    assert not values[1, 0].any()


def test_bilinear_of_one_copies() -> None:
    np.testing.assert_array_equal(Bilinear(1, 1)((2, 2, 1, 1), F64, 0)[:, :, 0, 0], np.eye(2))


def test_bilinear_of_an_even_size() -> None:
    values = Bilinear(4, 4)((1, 1, 4, 4), F64, 0)
    ramp = np.array([0.25, 0.75, 0.75, 0.25])
    assert values[0, 0] == pytest.approx(np.outer(ramp, ramp))


@pytest.mark.parametrize(
    ("make", "shape", "text"),
    [
        (Bilinear(3, 4), (2, 2, 4, 3), "a bilinear filter must be square, not 3 x 4"),
        (
            Bilinear(3, 3),
            (5, 4),
            "a bilinear filter of 3 x 3 does not fit a parameter [4 x 5]\n    The parameter must be [3 x 3 x C x C].",
        ),
    ],
)
def test_bilinear_refuses_other_shapes(make: Bilinear, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(ShapeError) as error:
        make(shape, F64, 0)
    assert str(error.value) == text


def test_a_file_has_one_row_per_line(tmp_path) -> None:
    path = tmp_path / "W.txt"
    path.write_text("1 2 3\n\t4\t5 6 \n\n")
    values = FromFile(path)((3, 2), F64, 0)
    assert values.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert values.flags.c_contiguous
    # A tensor [2 x 3 x 1] takes the same numbers in the same column-major order.
    assert FromFile(path)((1, 3, 2), F32, 0).tolist() == [[[1, 4], [2, 5], [3, 6]]]


def test_a_literal_is_read_like_a_file() -> None:
    assert FromLiteral("1 2\n3 4\n")((2, 2), F32, 0).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("declared", "text", "completed"),
    [((0, 0), "1 2\n3 4\n5 6", (2, 3)), ((2, 0), "1 2\n3 4", (2, 2)), ((0,), "1\n2", (2,)), ((0,), "1 2", (2, 1))],
)
def test_unknown_dimensions_come_from_the_matrix(
    declared: tuple[int, ...], text: str, completed: tuple[int, ...]
) -> None:
    assert FromLiteral(text).complete(declared) == completed


BAD_FILES = [
    ("1 2\n3 x4\n", (2, 2), "{path}:2:3: 'x4' is not a number"),
    (
        "1 2\n3\n",
        (2, 2),
        "{path}:2: this row has 1 values, the first one has 2\n    The file has one row of the matrix per line.",
    ),
    ("\n\n", (2, 2), "{path}: there are no values"),
    (
        "1 2\n3 4\n",
        (1, 4),
        "{path}: the file has 2 rows of 2 values, the parameter [4 x 1] needs 4 rows of 1 value",
    ),
]


@pytest.mark.parametrize(("content", "shape", "text"), BAD_FILES)
def test_a_bad_file_is_named_with_its_line(tmp_path, content: str, shape: tuple[int, ...], text: str) -> None:
    path = tmp_path / "W.txt"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        FromFile(path)(shape, F64, 0)
    assert str(error.value) == text.format(path=path)


def test_a_missing_file_names_the_recipe(tmp_path) -> None:
    with pytest.raises(DataError) as error:
        FromFile(tmp_path / "no.txt", Location("net.ndl", 3, 7))((1, 1), F64, 0)
    assert str(error.value) == (
        f"net.ndl:3:7: cannot read the initial values '{tmp_path / 'no.txt'}': No such file or directory"
    )


def test_dimensions_that_cannot_be_inferred() -> None:
    with pytest.raises(DataError) as error:
        FromLiteral("1 2 3\n4 5 6", Location("net.ndl", 3, 7)).complete((0, 2, 0))
    assert str(error.value) == (
        "net.ndl:3:7: the literal has 2 rows of 3 values, from which the dimensions [0 x 2 x 0] cannot be inferred"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "unifrom",
            "a.cntk:2:1: there is no initializer 'unifrom'; did you mean 'uniform'?\n"
            "    Initializers: uniform, uniform1, gaussian, normal, xavier, glorotUniform, glorotNormal, heUniform, "
            "heNormal, truncNormal, bilinear, fixedValue, fromFile, fromLiteral",
        ),
        ("fromFile", "a.cntk:2:1: the initializer 'fromFile' needs initFromFilePath"),
        ("fromliteral", "a.cntk:2:1: the initializer 'fromLiteral' needs initFromLiteral"),
        ("bilinear", "a.cntk:2:1: the initializer 'bilinear' needs kernelWidth and kernelHeight"),
    ],
)
def test_the_word_of_an_initializer(kind: str, text: str) -> None:
    with pytest.raises(BuildError) as error:
        initializer(kind, where=Location("a.cntk", 2, 1))
    assert str(error.value) == text


def test_words_ignore_case(tmp_path) -> None:
    assert initializer("FIXEDVALUE", value=2.0) == FixedValue(2.0)
    assert initializer("henormal", scale=2.0) == Random("heNormal", 2.0)
    assert initializer("FromFile", path=tmp_path) == FromFile(tmp_path)
    assert initializer("bilinear", kernel=(3, 3)) == Bilinear(3, 3)


def network(*parameters: Parameter) -> Network:
    made = Network(np.float64)
    for parameter in parameters:
        made.add(parameter)
    return made


def test_parameters_are_numbered_from_one() -> None:
    made = network(
        Parameter.make("a", (2, 3), Random()),
        Parameter.make("b", (3,), FixedValue(4.0)),
        Parameter.make("c", (2, 3), Random(seed=9)),
        Parameter.make("d", (2, 3), Random(), value=np.ones((2, 3))),
        Parameter.make("e", (2, 3), Random(seed_offset=100)),
    )
    initialize_parameters(made, 10)
    assert np.array_equal(made["a"].value, Random()((2, 3), F64, 11))
    assert made["b"].value.tolist() == [4.0, 4.0, 4.0]
    assert np.array_equal(made["c"].value, Random()((2, 3), F64, 9))
    assert np.array_equal(made["d"].value, np.ones((2, 3)))
    assert np.array_equal(made["e"].value, Random()((2, 3), F64, 113))


def test_all_parameters_that_cannot_be_filled_are_named(tmp_path) -> None:
    made = network(
        Parameter.make("a", (1, 1), FromFile(tmp_path / "no.txt"), where=Location("r.cntk", 1, 2)),
        Parameter.make("b", (3,), where=Location("r.cntk", 2, 2)),
        Parameter.make("c", (3, 2), FromLiteral("1 2"), where=Location("r.cntk", 3, 2)),
    )
    with pytest.raises(Problems) as error:
        initialize_parameters(made)
    assert str(error.value) == (
        f"r.cntk:1:2: cannot read the initial values '{tmp_path / 'no.txt'}': No such file or directory\n"
        "r.cntk:2:2: the parameter 'b' has neither a value nor an initializer\n"
        "r.cntk:3:2: the literal has 1 row of 2 values, the parameter [2 x 3] needs 2 rows of 3 values\n"
        "3 problems found"
    )
    assert isinstance(error.value.errors[1], NetworkError)


@given(st.text(), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_any_text_gives_values_or_an_error(text: str, dims: list[int]) -> None:
    literal = FromLiteral(text)
    try:
        shape = literal.complete(tuple(dims))
        values = literal(shape, F64, 0)
    except CntkError:
        return
    assert values.shape == shape


def test_a_bad_file_names_its_parameter(tmp_path) -> None:
    path = tmp_path / "W.txt"
    path.write_text("1 2\n")
    made = network(Parameter.make("W", (3, 2), FromFile(path), where=Location("r.cntk", 7, 4)))
    with pytest.raises(DataError) as error:
        initialize_parameters(made)
    assert str(error.value) == (
        f"{path}: the file has 1 row of 2 values, the parameter [2 x 3] needs 2 rows of 3 values\n"
        "    They are the first values of the parameter 'W' (r.cntk:7:4)."
    )
