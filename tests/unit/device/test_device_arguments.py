"""Launch arguments: what is converted, what is refused, and how the refusal reads."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np
import pytest

import warpschool as ws
from warpschool.contract.source import scan_source
from warpschool.device import SimDevice
from warpschool.device.arguments import checked_dims, convert, parameters
from warpschool.errors import ArgumentError, LaunchError, WarpschoolError


@dataclass(frozen=True)
class Info:
    """A parameter as PTX declares it."""

    type: str
    size_bytes: int
    offset: int
    align: int = 4


POINTER, INT, FLOAT, DOUBLE = Info("u64", 8, 0), Info("u32", 4, 8), Info("f32", 4, 12), Info("f64", 8, 16)
SIGNATURE = 'extern "C" __global__ void k(const float* __restrict__ A, int n, float alpha, double beta) {}'
DEVICE = SimDevice()
ARRAY = DEVICE.zeros(8, np.float32, name="A")


def params(*infos: Info, source: str = "", entry: str = "k"):
    return parameters(infos, scan_source(source, name="k.cu").parameters(entry))


FULL = params(POINTER, INT, FLOAT, DOUBLE, source=SIGNATURE)


def one(info: Info, value: object, source: str = ""):
    """The scalar that a one-parameter kernel receives."""
    return convert("k", params(info, source=source), (value,), DEVICE)[0]


class TestConversion:
    def test_a_whole_block(self) -> None:
        scalars = convert("k", FULL, (ARRAY, -7, 0.5, 3), DEVICE)
        assert b"".join(s.tobytes() for s in scalars) == struct.pack("<Qifd", ARRAY.address, -7, 0.5, 3.0)

    def test_numpy_scalars_keep_their_type(self) -> None:
        assert one(INT, np.int32(-1)).tobytes() == struct.pack("<i", -1)
        assert one(INT, np.uint32(2**32 - 1)).tobytes() == struct.pack("<I", 2**32 - 1)
        assert one(Info("u64", 8, 0), np.int64(5)).tobytes() == struct.pack("<q", 5)

    @pytest.mark.parametrize("value", [0, -(2**31), 2**32 - 1, True])
    def test_python_ints_that_fit(self, value: int) -> None:
        assert one(INT, value).tobytes() == (int(value) % 2**32).to_bytes(4, "little")

    def test_floats_may_be_infinite_or_nan(self) -> None:
        assert np.isinf(one(FLOAT, float("inf")))
        assert np.isnan(one(FLOAT, float("nan")))
        assert one(FLOAT, 0.1) == np.float32(0.1)
        assert one(FLOAT, 2**24) == 2**24

    def test_structures(self) -> None:
        record = Info("b8", 8, 0)
        kind = np.dtype([("x", "f4"), ("n", "i4")])
        value = np.array([(1.5, 2)], kind)[0]
        assert one(record, value).tobytes() == struct.pack("<fi", 1.5, 2)
        assert one(record, struct.pack("<fi", 1.5, 2)).tobytes() == struct.pack("<fi", 1.5, 2)
        assert one(Info("b8", 2, 0), np.float16(1.5)).tobytes() == np.float16(1.5).tobytes()

    def test_none_is_the_null_pointer_where_one_is_declared(self) -> None:
        assert one(POINTER, None, "__global__ void k(float* p)") == 0
        with pytest.raises(ArgumentError):
            one(INT, None)

    def test_any_8_byte_integer_may_be_a_pointer_where_nothing_is_declared(self) -> None:
        assert one(POINTER, ARRAY) == ARRAY.address
        assert one(POINTER, ARRAY, "__global__ void k(MACRO(x))") == ARRAY.address


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((ARRAY, 1, 1.0), r"k takes 4 arguments \(A, n, alpha, beta\), 3 were given"),
            ((ARRAY, 1, 1.0, 1.0, 1), "5 were given"),
            ((1, 1, 1.0, 1.0), r"argument 1 \(A\): the kernel takes a pointer, `float\* A`; an int was given"),
            ((np.zeros(3, np.float32), 1, 1.0, 1.0), r"argument 1 \(A\): a NumPy array of shape \(3,\)"),
            ((ARRAY, ARRAY, 1.0, 1.0), r"argument 2 \(n\): the kernel takes a value, `int n`; an array was given"),
            ((ARRAY, 1.5, 1.0, 1.0), r"argument 2 \(n\): the kernel takes an integer"),
            ((ARRAY, 2**31, 1.0, 1.0), r"argument 2 \(n\): 2147483648 does not fit"),
            ((ARRAY, np.int64(1), 1.0, 1.0), r"argument 2 \(n\).*a.* int64 \(8 bytes\) was given"),
            ((ARRAY, np.float32(1), 1.0, 1.0), r"argument 2 \(n\).*float32"),
            ((ARRAY, 1, np.float64(1), 1.0), r"argument 3 \(alpha\).*float64 \(8 bytes\)"),
            ((ARRAY, 1, np.int32(1), 1.0), r"argument 3 \(alpha\).*int32"),
            ((ARRAY, 1, 1e39, 1.0), r"argument 3 \(alpha\): 1e\+39 is too large"),
            ((ARRAY, 1, 10**400, 1.0), r"argument 3 \(alpha\).*too large"),
            ((ARRAY, 1, 2**24 + 1, 1.0), r"argument 3 \(alpha\): the integer 16777217 has no exact value"),
            ((ARRAY, "7", 1.0, 1.0), r"argument 2 \(n\): a str cannot be passed"),
            ((ARRAY, None, 1.0, 1.0), r"argument 2 \(n\): None cannot be passed"),
            ((ARRAY, 1j, 1.0, 1.0), r"argument 2 \(n\): a complex cannot"),
            ((ARRAY, b"1234567", 1.0, 1.0), r"argument 2 \(n\): 7 bytes were given"),
        ],
    )
    def test_the_parameter_is_named(self, arguments: tuple, message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            convert("k", FULL, arguments, DEVICE)

    def test_arguments_come_as_a_tuple(self) -> None:
        with pytest.raises(ArgumentError, match="tuple"):
            convert("k", FULL, ARRAY, DEVICE)  # type: ignore[arg-type]

    def test_without_a_declaration_the_position_is_named(self) -> None:
        with pytest.raises(ArgumentError, match=r"k, argument 1: .* a 32-bit integer"):
            one(INT, 1.5)

    def test_an_array_of_another_device(self) -> None:
        other = SimDevice(memory_limit_bytes=1 << 20).zeros(3, np.float32)
        with pytest.raises(ArgumentError, match=r"argument 1 \(A\): the array is on"):
            convert("k", FULL, (other, 1, 1.0, 1.0), DEVICE)

    @pytest.mark.parametrize(
        ("declared", "dtype", "fits"),
        [
            ("const float* A", "f4", True),
            ("const float* A", "f8", False),
            ("const float* A", "i4", False),
            ("float4* A", "f4", True),
            ("int* A", "i8", False),
            ("int* A", "u4", True),
            ("const int* A", "i1", True),  # four packed in one
            ("unsigned long long *A", "u8", True),
            ("half* A", "f2", True),
            ("half* A", "f4", False),
            ("const float A[]", "f8", False),
            ("void* A", "f8", True),
            ("const T* A", "f8", True),
            ("float** A", "u8", True),
            ("float** A", "f4", False),
            ("size_t A", "f4", False),
        ],
    )
    def test_element_types_are_compared_where_they_are_declared(self, declared: str, dtype: str, fits: bool) -> None:
        array = DEVICE.zeros(4, dtype)
        source = f"__global__ void k({declared})"
        if fits:
            assert one(POINTER, array, source) == array.address
        else:
            with pytest.raises(ArgumentError, match=r"argument 1 \(A\)"):
                one(POINTER, array, source)


class TestSignature:
    def names(self, source: str, entry: str = "k") -> list[str]:
        return [d.name for d in scan_source(source, name="k.cu").parameters(entry)]

    def test_the_usual_form(self) -> None:
        source = """
        // __global__ void k(int wrong)
        extern "C" __global__ void __launch_bounds__(256, 2)
        k(const float *__restrict__ A,   /* a, comment */
          float const* B, unsigned int n, std::size_t m, const dim3 d, float c[4][2]) {"""
        assert self.names(source) == ["A", "B", "n", "m", "d", "c"]

    @pytest.mark.parametrize(
        "source",
        [
            "",
            "void k(int n)",
            "__global__ void other(int n)",
            "__global__ void k()",
            "__global__ void k(void)",
            "__global__ void k(ARGS)",
            "__global__ void k(int)",
            "__global__ void k(int a, void (*f)(int))",
            "#if A\n__global__ void k(int a)\n{}\n#else\n__global__ void k(float a)\n{}\n#endif",
            "__global__ void k(int a",
        ],
    )
    def test_what_cannot_be_read_is_unknown(self, source: str) -> None:
        assert self.names(source) == []

    def test_a_prototype_and_its_definition_agree(self) -> None:
        assert self.names("__global__ void k(int n);\n__global__ void k(int  n) {}") == ["n"]

    def test_a_declaration_that_does_not_match_the_compiled_kernel_is_dropped(self) -> None:
        assert params(INT, FLOAT, source="__global__ void k(int n)")[0].declared is None
        assert params(INT, source="__global__ void k(float* p)")[0].declared is None


class TestDims:
    @pytest.mark.parametrize(
        ("given", "dims"),
        [(5, (5, 1, 1)), ((5,), (5, 1, 1)), ((2, 3), (2, 3, 1)), ([2, 3, 4], (2, 3, 4)), (np.int64(7), (7, 1, 1))],
    )
    def test_up_to_three_integers(self, given, dims) -> None:
        assert checked_dims("k", "block", given) == dims

    @pytest.mark.parametrize(
        ("what", "given", "message"),
        [
            ("grid", (2.0, 1), "//"),
            ("grid", "12", "integers"),
            ("grid", (), "1 to 3"),
            ("grid", (1, 1, 1, 1), "1 to 3"),
            ("grid", (0, 1), r"grid.x = 0"),
            ("grid", (1, 65536), r"grid.y = 65,536"),
            ("grid", 2**31, "grid.x"),
            ("block", (1, 1, 65), "block.z = 65"),
            ("block", (32, 33), "32 x 33 x 1 = 1,056"),
            ("block", 1025, "block.x"),
            ("block", (-1,), "block.x = -1"),
        ],
    )
    def test_everything_else_is_refused(self, what, given, message) -> None:
        with pytest.raises(LaunchError, match=message) as caught:
            checked_dims("k", what, given)
        assert isinstance(caught.value, WarpschoolError)
        assert str(caught.value).startswith("k: ")


@pytest.mark.parametrize(
    "option, message",
    [
        ({"check": "all"}, "the launch option check = 'all' is neither True nor False"),
        ({"count": 1}, "the launch option count = 1 is neither True nor False"),
        ({"threads": 0}, "the launch option threads = 0 is no integer of at least 1"),
        ({"step_limit": 1e6}, "the launch option step_limit = 1000000.0 is no integer of at least 1"),
        ({"print_limit": None}, "the launch option print_limit = None is no integer of at least 0"),
    ],
)
def test_launch_options_have_types_and_bounds(option, message):
    kernel = ws.RawModule(code='extern "C" __global__ void nothing() {}', device="sim").get_function("nothing")
    with pytest.raises(ArgumentError, match=re.escape(message)):
        kernel((1,), (32,), (), **option)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        SimDevice(**option)


def test_launch_options_may_be_numpys():
    kernel = ws.RawModule(code='extern "C" __global__ void nothing() {}', device="sim").get_function("nothing")
    assert kernel((2,), (32,), (), check=np.False_, count=np.True_, threads=np.int64(2)).counters.blocks == 2
