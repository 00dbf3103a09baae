"""The `%%kernel` cell magic."""

from __future__ import annotations

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from warpschool.compile import compile_cuda, resource_usage
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.notebook.cells import remember
from warpschool.show.page import show, show_text
from warpschool.show.results import compiled_html, failed_html


@magics_class
class KernelMagics(Magics):
    """`%%kernel STEP`: this cell is my kernel for that step."""

    @magic_arguments()
    @argument("step", help="the step, such as lab02_tiling/01_tiled")
    @argument("--check", action="store_true", help="check the kernel at once")
    @argument("--device", default="auto", choices=("auto", "sim", "gpu"), help="where --check runs it")
    @cell_magic
    def kernel(self, line: str, cell: str) -> None:
        """Take the cell as the step's kernel: remember it, compile it, show errors under their lines."""
        options = parse_argstring(self.kernel, line)
        try:
            step = Course.find().step(options.step)
        except WarpschoolError as error:
            show_text(str(error), failed=True)
            return
        remember(step.name, cell)
        if _compiles(step.name, step.file_name, cell) and options.check:
            from warpschool.grading import check_cell

            check_cell(step.name, device=options.device)


def _compiles(step: str, name: str, source: str) -> bool:
    """Compile, and show the errors or what the kernels use."""
    try:
        contract = parse_contract(source, name=name)
        compile_cuda(source, name=name)
        resources = resource_usage(source, name=name)
    except WarpschoolError as error:
        show(str(error), failed_html(step, name, error, source))
        return False
    uses = [
        f"{entry.name}: {used.registers} registers, {used.shared_bytes:,} bytes of shared memory"
        for entry in contract.entries
        if (used := resources.get(entry.name)) is not None
    ]
    show("\n".join([f"{step} compiles.", *uses]), compiled_html(step, name, uses, source))
    return True
