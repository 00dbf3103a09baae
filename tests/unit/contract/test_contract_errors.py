"""Each way to get a header wrong: the class, the line, what was found, and what to write instead."""

from __future__ import annotations

from random import Random

import pytest

from warpschool.contract import parse_contract, require_same_entries
from warpschool.errors import ContractError, EntryError, LaunchError, LaunchLineError, NeedsError, WarpschoolError

GOOD = """\
// 01_scale.cu: y = a * x.
// Idea:   one thread an element.
// Entry:  scale(const float x[n] in, float y[n] out, float a, int n)
// Launch: scale block=(BLOCK) grid=(cdiv(n, BLOCK))
constexpr int BLOCK = 256;
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {}
"""
ENTRY = "// Entry:  scale(const float x[n] in, float y[n] out, float a, int n)"
LAUNCH = "// Launch: scale block=(BLOCK) grid=(cdiv(n, BLOCK))"


def broken(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def failure(source: str, error: type[ContractError] = ContractError) -> str:
    with pytest.raises(ContractError) as caught:
        parse_contract(source, name="k.cu")
    assert type(caught.value) is error
    assert len(str(caught.value).splitlines()) < 20
    return str(caught.value)


def test_the_good_one_passes():
    assert parse_contract(GOOD).bind({"n": 1000, "a": 2}).launches[0].grid == (4, 1, 1)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("  \n", ContractError, ["k.cu: the file is empty", "starter"]),
        ("int x;\n", EntryError, ["k.cu:1", "no kernel in this file", '__global__ void name(']),
        (broken(ENTRY + "\n", ""), EntryError,
         ["no Entry line", "// Entry: scale(const float x[SHAPE] in, float y[SHAPE] out, float a, int n)"]),
        (broken(LAUNCH + "\n", ""), LaunchLineError, ["k.cu:3", "no Launch line", "// Launch: scale block="]),
        (broken("// Launch", "\n// Launch"), LaunchLineError, ["no Launch line", "Line 5 has one", "move it up"]),
        (broken("// Launch", "// Lauch"), ContractError, ["k.cu:4", "'Lauch:'", "Did you mean 'Launch:'?"]),
        (broken("// Launch", "// Tolerance: 3\n// Launch"), ContractError, ["k.cu:4", "'Tolerance:'", "keywords are"]),
        (broken(LAUNCH, "// Launch: as you like"), LaunchLineError,
         ["k.cu:4: column 15", "unknown launch option 'you'"]),
        (broken("(BLOCK) grid", "BLOCK grid"), LaunchLineError,
         ["column 24", "expected '(' but found 'BLOCK'", "block=(256)"]),
        (broken("grid=", "gird="), LaunchLineError, ["unknown launch option 'gird'", "Did you mean grid?"]),
        (broken(" grid=(cdiv(n, BLOCK))", ""), LaunchLineError, ["no grid=(...)"]),
        (broken("block=(BLOCK)", "block=(1, 2, 3, 4)"), LaunchLineError, ["4 numbers", "three"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=(ceil(n, BLOCK))"), LaunchLineError,
         ["unknown function 'ceil'", "cdiv"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=(cdiv(n))"), LaunchLineError, ["cdiv takes 2 arguments, not 1"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=(n / 2.5)"), LaunchLineError, ["'2.5' is not a plain integer"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=(n $ 2)"), ContractError, ["'$' has no meaning"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=(\uff12)"), ContractError, ["has no meaning"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=((n)"), LaunchLineError, ["expected ')' but found the end of the line"]),
        (broken("grid=(cdiv(n, BLOCK))", "grid=(cdiv(n, BLOK))"), LaunchLineError,
         ["'BLOK' is unknown", "Did you mean BLOCK?"]),
        (broken("Launch: scale", "Launch: scala"), LaunchLineError,
         ["'scala', which has no Entry", "Did you mean scale?"]),
        (broken("constexpr int BLOCK = 256;", "#define BLOCK 256"), LaunchLineError,
         ["'BLOCK' is unknown", "#define", "constexpr int BLOCK = 256;"]),
        (broken("BLOCK = 256;", "BLOCK = sizeof(double) * 32;"), LaunchLineError, ["whose value", "cannot compute"]),
        (broken("float y[n] out, float a", "float* y, float a"), EntryError, ["found '*'", "A[M,K] in"]),
        (broken("float y[n] out", "float y[n]"), EntryError, ["expected in, out or inout", "found ','"]),
        (broken("float y[n] out", "const float y[n] out"), EntryError, ["const but marked out"]),
        (broken("float y[n] out", "flaot y[n] out"), EntryError, ["unknown type 'flaot'", "Did you mean float"]),
        (broken("float y[n] out", "float y[m] out"), ContractError, ["'m' is unknown"]),
        (broken("float a, int n)\n//", "float a in, int n)\n//"), EntryError,
         ["'in' behind a parameter without a shape"]),
        (broken("float a, int n)\n//", "float a, int n, int n)\n//"), EntryError, ["a second parameter 'n'"]),
        (broken("float a, int n)\n//", "float a, int n) quickly\n//"), EntryError, ["'quickly' is one too many"]),
        (broken("// Launch", ENTRY + "\n// Launch"), EntryError, ["a second Entry line for 'scale'"]),
        (broken('extern "C" ', "namespace a { "), EntryError, ["k.cu:3", "'scale' at file scope"]),
        (broken('extern "C" ', "template <int N> "), EntryError, ["k.cu:6", "a template"]),
        (broken("void scale(", "void scales("), EntryError, ["k.cu:3", "'scale'", "Did you mean scales?"]),
        (broken("float* y, float a, int n)", "float* y, int n)"), EntryError,
         ["k.cu:6", "takes 3 parameters", "and 4"]),
        (broken("float* y, float a, int n)", "float* y, int a, int n)"), EntryError,
         ["parameter 3", "'int a'", "'float a'", "Make both say the same: float a"]),
        (broken("float* y, float a, int n)", "double* y, float a, int n)"), EntryError, ["parameter 2", "float* y"]),
        (broken("float* y, float a, int n)", "float** y, float a, int n)"), EntryError, ["parameter 2", "float* y"]),
        (broken("(const float* x, float* y", "(float* y, const float* x"), EntryError, ["parameter 1", "'float* y'"]),
        (broken("// Launch", "// Scratch: z\n// Launch"), ContractError, ["Scratch names 'z'", "no array"]),
        (broken("// Launch", "// Scratch: x\n// Launch"), ContractError, ["'x', which no kernel writes"]),
        (broken("// Launch", "// Zeroed: x\n// Launch"), ContractError, ["'x', which no kernel writes"]),
        (broken("// Launch", "// Constant: table <- x\n// Launch"), ContractError, ["no __constant__ symbol 'table'"]),
        (broken("// Launch", "// Constant: table = x\n// Launch"), ContractError, ["expected '<'", "filters <- w"]),
        (broken("// Launch", "// Sizes: m + 1\n// Launch"), ContractError, ["expected '=' but found '+'"]),
        (broken("// Launch", "// Sizes: x = 1\n// Launch"), ContractError, ["the name 'x' is taken"]),
        (broken("// Launch", "// Sizes: a1 = b1, b1 = 2\n// Launch"), ContractError, ["'b1' is unknown", "in order"]),
        (broken("// Launch", "// Needs: 1 <= n <= 9\n// Launch"), ContractError,
         ["second comparison", "two conditions"]),
        (broken("// Launch", "// Needs: n >=\n// Launch"), ContractError, ["found the end of the line"]),
        (broken("int n)\n//", "int BLOCK)\n//").replace("[n]", "[BLOCK]"), EntryError, ["parameter and a constexpr"]),
    ],
)  # fmt: skip
def test_parse_errors(source, error, words):
    message = failure(source, error)
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    ("source", "sizes", "error", "words"),
    [
        (GOOD, {"n": 5}, ContractError, ["k.cu:3", "no value for a"]),
        (GOOD, {"n": 5, "a": 1.0, "m": 3}, ContractError, ["'m' is no scalar", "a, n"]),
        (GOOD, {"n": 5.5, "a": 1.0}, ContractError, ["'int n' needs an integer, not 5.5"]),
        (GOOD, {"n": True, "a": 1.0}, ContractError, ["needs an integer"]),
        (GOOD, {"n": 2**31, "a": 1.0}, ContractError, ["2147483648 does not fit"]),
        (GOOD, {"n": 0, "a": 1.0}, ContractError, ["length 0 along n"]),
        (broken("(BLOCK) grid", "(BLOCK, 8) grid"), {"n": 5, "a": 1}, LaunchError,
         ["k.cu:4", "2048 threads in a block", "1024", "BLOCK = 256"]),
        (broken("(BLOCK) grid", "(8, 8, 65) grid"), {"n": 5, "a": 1}, LaunchError, ["block z = 65"]),
        (broken("cdiv(n, BLOCK))", "1, 70000)"), {"n": 5, "a": 1}, LaunchError, ["grid y = 70000", "65535"]),
        (broken("cdiv(n, BLOCK))", "n / 256)"), {"n": 5, "a": 1}, LaunchError, ["grid x = 0"]),
        (broken("cdiv(n, BLOCK))", "1) shared=n * 1024"), {"n": 500, "a": 1}, LaunchError, ["512000 bytes of shared"]),
        (broken("cdiv(n, BLOCK))", "n / (n - 5))"), {"n": 5, "a": 1}, LaunchLineError, ["division of 5 by zero"]),
        (broken("// Launch", "// Needs: n % 4 == 0, n > 9\n// Launch"), {"n": 8, "a": 1}, NeedsError,
         ["k.cu:4", "needs n > 9", "n = 8"]),
        (broken("// Launch", "// Sizes: h = n*n*n*n*n*n*n\n// Launch"), {"n": 10**6, "a": 1}, ContractError,
         ["64 bits"]),
        (broken("float y[n] out, float a", "float4 y[n] out, float a").replace("float* y", "float4* y"),
         {"n": 6, "a": 1}, NeedsError, ["6 elements", "multiple of 4"]),
    ],
)  # fmt: skip
def test_bind_errors(source, sizes, error, words):
    contract = parse_contract(source, name="k.cu")
    with pytest.raises(error) as caught:
        contract.bind(sizes)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


def test_unknown_constants_are_refused():
    with pytest.raises(ContractError, match="Did you mean BLOCK"):
        parse_contract(GOOD).bind({"n": 5, "a": 1.0}, constants={"BLOK": 8})


def test_random_edits_end_in_a_contract_or_an_error_of_ours():
    pieces = [
        "(", ")", "[", "]", ",", ";", "=", "<-", "*", "/", "%", "cdiv", "block", "in", "out", "const", "float", "int",
        "n", "//", "\n", "\n// ", "Entry:", "Launch:", "Sizes:", "Needs:", "Scratch:", "Zeroed:", "Constant:", "0",
        "9" * 30, '"', "'", "{", "}", "/*", "*/", 'R"(', "#if 0", "::", "-", "\\\n", "\x00", "é",
    ]  # fmt: skip
    random = Random(5)
    for _ in range(2000):
        source = GOOD
        for _ in range(random.randint(1, 5)):
            start = random.randrange(len(source))
            source = source[:start] + random.choice(pieces) + source[start + random.choice([0, 0, 1, 5]) :]
        try:
            contract = parse_contract(source)
            sizes = {p.name: random.choice([0, 1, 100, -3]) for p in contract.parameters() if not p.is_array}
            contract.bind(sizes)
        except WarpschoolError as error:
            assert str(error)


def test_hostile_expressions_end_in_an_error():
    assert "nested" in failure(broken("cdiv(n, BLOCK))", "(" * 5000 + "n)"), LaunchLineError)
    assert "more than 256 parts" in failure(broken("cdiv(n, BLOCK))", "+".join("n" * 5000) + ")"), LaunchLineError)
    assert "nested" in failure(broken("cdiv(n, BLOCK))", "max(1," * 5000), LaunchLineError)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scale", "stretch", ["asks for a kernel 'scale'"]),
        ("float a, int n)", "int n)", ["has 3 parameters", "asks for 4"]),
        ("y[n] out", "y[n] inout", ["parameter 2", "'float y[n] inout'", "'float y[n] out'"]),
        ("y[n] out", "y[n+1] out", ["parameter 2"]),
        ("// Launch", "// Zeroed: y\n// Launch", ["'y' starts at zero here", "Remove it"]),
    ],
)
def test_a_submission_must_keep_the_steps_entries(old, new, words):
    changed = GOOD.replace(old, new).replace("float* y, float a, int n)", "float* y, int n)" if "a," in old else
                                             "float* y, float a, int n)")  # fmt: skip
    step, submission = parse_contract(GOOD, name="step.cu"), parse_contract(changed, name="k.cu")
    with pytest.raises(EntryError) as caught:
        require_same_entries(submission, step)
    for word in [*words, "k.cu:3"]:
        assert word in str(caught.value)


def test_a_submission_may_add_kernels_and_change_launches():
    changed = broken(LAUNCH, "// Entry: more(float t[n] out, int n)\n// Scratch: t\n"
                     "// Launch: scale block=(32) grid=(cdiv(n, 32)); more block=(1) grid=(1)")  # fmt: skip
    changed += 'extern "C" __global__ void more(float* t, int n) {}\n'
    require_same_entries(parse_contract(changed), parse_contract(GOOD))
