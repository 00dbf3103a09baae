"""Several modules of PTX as one."""

import pytest

import ptxsim
from warpschool.errors import PtxSyntaxError
from warpschool.programs.linker import link

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
FIRST = f"""{HEAD}
.extern .func (.param .b32 out) twice(.param .b32 x)
;
.extern .const .align 4 .b8 table[8];
.visible .global .align 4 .u32 counter;
.global .align 4 .u32 own = 5; // { "braces in a comment" }
.weak .func (.param .b32 out) shared_by_all() {{ .reg .b32 %r<2>; mov.u32 %r1, own; st.param.b32 [out], %r1; ret; }}
.visible .entry first(.param .u64 p)
{{
	.reg .b32 %r<3>;
	.loc 1 7 2
	ld.global.u32 %r1, [own];
	ld.const.u32 %r2, [table+4];
	ret;
}}
	.file	1 "/a/first.cu"
	.section	.debug_str
	{{
$L__info_string0:
.b8 95,90,0
	}}
"""
SECOND = f"""{HEAD}
.visible .const .align 4 .b8 table[8] = {{1, 0, 0, 0, 2, 0, 0, 0}};
.global .align 4 .u32 own = 6;
.weak .func (.param .b32 out) shared_by_all() {{ .reg .b32 %r<2>; mov.u32 %r1, own; st.param.b32 [out], %r1; ret; }}
.visible .func (.param .b32 out) twice(.param .b32 x)
{{
	.reg .b32 %r<3>;
	.loc 1 3 1, function_name $L__info_string0, inlined_at 1 4 2
	ld.param.b32 %r1, [x];
	add.u32 %r2, %r1, %r1;
	st.param.b32 [out], %r2;
	ret;
}}
	.file	1 "/a/second.cu"
"""


def test_what_one_file_declares_another_defines():
    module = ptxsim.parse(link([FIRST, SECOND]))
    assert set(module.entries) == {"first"}
    assert {"table", "counter", "own$file0", "own$file1"} <= set(module.program.globals)


def test_names_of_a_files_own_stay_apart_and_lines_keep_their_files():
    text = link([FIRST, SECOND])
    assert "ld.global.u32 %r1, [own$file0]" in text
    assert ".loc 2 3 1, function_name $L__info_string0, inlined_at 2 4 2" in text
    assert '.file 2 "/a/second.cu"' in text.replace("\t", " ")


def test_a_weak_function_is_there_once():
    assert link([FIRST, SECOND]).count("shared_by_all()") == 1


def test_one_module_stays_as_it_is():
    assert link([FIRST]) == FIRST


def test_two_definitions_of_one_name_are_refused():
    with pytest.raises(PtxSyntaxError, match="table is defined in two files"):
        link([SECOND, SECOND])


def test_text_that_is_no_ptx_is_refused():
    with pytest.raises(PtxSyntaxError, match="cannot link"):
        link([FIRST, f"{HEAD}\nhello"])
