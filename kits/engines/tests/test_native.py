"""Functions of numbers and arrays give, compiled, what Python gives."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.api.engines import NotNative, native_function
from cntk_kit_engines.code_generator import CodeGenerator

pytestmark = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")


def check(text: str, signature: str, *arguments: Any) -> Any:
    """Run a function ``f`` compiled and by Python, on copies of the arguments; compare arrays and results."""
    names: dict[str, Any] = {"np": np, "math": math}
    exec(text, names)
    copies = [[np.array(each) if isinstance(each, np.ndarray) else each for each in arguments] for _ in range(2)]
    with np.errstate(all="ignore"):
        wanted = names["f"](*copies[0])
    found = native_function(text, "f", signature)(*copies[1])
    for one, other in zip(*copies, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-12)
    if wanted is not None:
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    return found


NUMBERS = [-7, -3, -1, 0, 1, 2, 5, 12]

INTEGERS = """
def f(a, b, out):
    for i in range(len(a)):
        x, y = a[i], b[i]
        out[i, 0] = x + y * 3 - 1
        if y != 0:
            out[i, 1] = x // y
            out[i, 2] = x % y
        out[i, 3] = (x << 3) ^ (y & 6) | (x >> 1)
        out[i, 4] = -x + ~y
        out[i, 5] = min(x, y, 2) + max(x, y) * abs(x)
        out[i, 6] = x < y
        out[i, 7] = 1 if x < y < 4 else (2 if x == y or not y else 3)
        out[i, 8] = x / 4 + 0.5 if x else y
"""


def test_integers_are_those_of_python() -> None:
    pairs = np.array([(x, y) for x in NUMBERS for y in NUMBERS], np.int64)
    arguments = [np.ascontiguousarray(column) for column in pairs.T]
    check(INTEGERS, "void(int64[::1], int64[::1], float64[:, ::1])", *arguments, np.zeros((len(pairs), 9)))


REALS = """
def f(x, y, out):
    for i in range(x.shape[0]):
        a, b = x[i], y[i]
        out[0, i] = (a + b) * a - b / (a + 10.5)
        out[1, i] = a ** 2.0
        out[2, i] = np.exp(a) + np.log(abs(b) + 1.0) + np.sqrt(a * a)
        out[3, i] = math.tanh(a) + np.sin(b) * np.cos(a) + np.floor(a) - np.ceil(b) + np.log1p(abs(a))
        out[4, i] = b if a < b else -a
        out[5, i] = int(a) + float(3)
        out[6, i] = np.inf if a >= 2.0 else np.nan
        out[7, i] = a != a
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_numbers(dtype: str) -> None:
    x = np.array([-2.5, -1, 0, 0.25, 1.5, 2, 7], dtype)
    signature = f"void({dtype}[::1], {dtype}[::1], {dtype}[:, ::1])"
    check(REALS, signature, x, np.ascontiguousarray(x[::-1]), np.zeros((8, 7), dtype))


LOOPS = """
LIMIT = 5
BYTE = ord("0")

def twice(n):
    return n * 2, n + 1

def f(data, out):
    count = 0
    i = 0
    while i < len(data) and data[i] != 0:
        if data[i] == BYTE:
            i += 1
            continue
        if count >= LIMIT:
            break
        out[count] = data[i] - BYTE
        count += 1
        i += 1
    for j in range(10, 0, -3):
        out[6] += j
        if j < 5:
            break
    for j in range(3, 12, 4):
        j += 1
        out[7] -= j
    a, b = twice(count)
    c = d = a
    pair = twice(c)
    return a + b + d + pair[1]
"""


@pytest.mark.parametrize("given", [b"", b"102003", b"90\x0012", b"123456789", b"0000"])
def test_loops_over_bytes(given: bytes) -> None:
    data = np.frombuffer(given, np.uint8).copy()
    check(LOOPS, "int64(uint8[::1], int64[::1])", data.astype(np.uint8), np.zeros(8, np.int64))


PARTS = """
def add(rows, row, sign):
    columns = rows.shape[1]
    for i in range(len(rows)):
        for j in range(columns):
            rows[i, j] += row[j] if sign else -row[j]

def f(x, first, end, flag):
    add(x[first:end], x[0], flag)
    row = x[1]
    row[0] *= 3
    row[1] /= 2
    add(x[end:], x[0], not flag)
    if flag:
        return
    x[0, 0] = -1
"""


@pytest.mark.parametrize("flag", [False, True])
def test_parts_of_arrays(flag: bool) -> None:
    x = np.arange(24, dtype=np.float64).reshape(6, 4)
    check(PARTS, "void(float64[:, ::1], int64, int64, boolean)", x, 2, 4, flag)


def test_a_variable_is_as_wide_as_what_it_is_given() -> None:
    text = "def f(n):\n    x = 1\n    for i in range(n):\n        x = x * 0.5\n    return x\n"
    assert check(text, "float64(int64)", 3) == 0.125


def test_bits_of_a_number() -> None:
    text = "def f(x, out):\n    out[0] = (np.int32(x) + np.int32(127) << np.int32(23)).view(np.float32)\n"
    out = np.zeros(1, np.float32)
    native_function(text, "f", "void(float32, float32[::1])")(10.0, out)
    assert out[0] == 1024.0


def test_a_function_of_c() -> None:
    import ctypes

    address = ctypes.cast(ctypes.CDLL(None).hypot, ctypes.c_void_p).value
    text = 'def f(address, x, y):\n    return foreign(address, "double(double, double)", x, y)\n'
    assert native_function(text, "f", "float64(int64, float64, float64)")(address, 3.0, 4.0) == 5.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(x):\n    y = [x]\n", "f, line 2: List is not known"),
        ("def f(x):\n    return z\n", "f, line 2: there is no variable 'z'"),
        ("def f(x):\n    g(x)\n", "f, line 2: there is no function 'g'"),
        ("def f(x):\n    for y in x:\n        pass\n", "f, line 2: for goes over a range alone"),
        ("def f(x):\n    return x[0]\n", "f, line 2: only arrays have elements"),
        ("def f(x):\n    with x:\n        pass\n", "f, line 2: With is not known"),
        ("def g(x):\n    pass\n", "there is no function 'f'"),
    ],
)
def test_what_the_language_has_not(text: str, said: str) -> None:
    with pytest.raises(NotNative) as error:
        native_function(text, "f", "void(int64)")
    assert error.value.args[0] == said


def test_arguments_are_checked() -> None:
    function = native_function("def f(x):\n    x[0, 0] = 1\n", "f", "void(float32[:, ::1])")
    for wrong in (np.zeros((2, 2)), np.zeros(2, np.float32), np.zeros((3, 2), np.float32).T):
        with pytest.raises(TypeError, match="argument 0 must be an array of float32 with 2 axes in one piece"):
            function(wrong)
    with pytest.raises(TypeError, match="1 arguments are needed, not 2"):
        function(np.zeros((2, 2), np.float32), 3)


MANY = """
import numpy as np


def f(a, b, c, d, e):
    for i in range(a.shape[0]):
        c[i] = a[i] * b[i] + 1.5
        d[i] = a[i] - c[i]
        e[i] = d[i] * d[i] + b[i]
"""


def test_a_text_that_wants_no_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects: list[bytes] = []
    compile_one = CodeGenerator.compile

    def kept(self: CodeGenerator, text: str) -> bytes:
        objects.append(compile_one(self, text))
        return objects[-1]

    monkeypatch.setattr(CodeGenerator, "compile", kept)
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path))
    for text in (MANY, f"VECTORS = False\n{MANY}", f"VECTORS = True\n{MANY}"):
        check(text, f"void({', '.join(['float32[::1]'] * 5)})", *(np.arange(37, dtype=np.float32) for _ in range(5)))
    with_vectors, without, asked = map(len, objects)
    assert without < 0.9 * with_vectors
    assert asked == pytest.approx(with_vectors, abs=64)
