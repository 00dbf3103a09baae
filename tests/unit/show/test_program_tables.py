"""Tables of what programs did: which kernels of two programs belong together."""

from __future__ import annotations

from types import SimpleNamespace

from warpschool.programs.report import KernelUse
from warpschool.show.programs import compared


def _report(*kernels):
    return SimpleNamespace(kernels=tuple(KernelUse(name, 1, {"blocks": 3}, 10.0, 10.0, 10.0) for name in kernels))


def _names(first, second):
    table = compared(_report(*first), _report(*second), ("a.cu", "b.cu"))[0]
    return [(row[0], *row[1:3]) for row in table.rows]


def test_kernels_belong_together_by_name_and_then_by_their_templates():
    before = ["add(float*, int)", "void fill<float, 1>(float*, int)", "gone(int*)"]
    after = ["void fill<float, 8>(float*, int)", "add(float*, int)", "new_one(int*)"]
    assert _names(before, after) == [
        ("add(float*, int)", "1", "1"),
        ("void fill<float, 1>(float*, int) / void fill<float, 8>(float*, int)", "1", "1"),
        ("gone(int*)", "1", "-"),
        ("new_one(int*)", "-", "1"),
    ]


def test_kernels_of_a_template_that_could_be_several_stay_apart():
    names = _names(["void fill<float, 1>(float*)"], ["void fill<float, 4>(float*)", "void fill<float, 8>(float*)"])
    assert [left for _, left, _ in names] == ["1", "-", "-"]


def test_arguments_may_change_and_the_only_kernel_of_each_belongs_to_the_others():
    floats, doubles = (f"(anonymous namespace)::sum({type_name}*)" for type_name in ("float", "double"))
    assert _names([floats, "k(int)"], [doubles, "k(int)"]) == [
        (f"{floats} / {doubles}", "1", "1"),
        ("k(int)", "1", "1"),
    ]
    assert _names(["naive(float*)"], ["tiled(float*)"]) == [("naive(float*) / tiled(float*)", "1", "1")]
