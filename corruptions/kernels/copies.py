"""A step of numba's compiler that removes copies of variables, such as the arguments of inlined functions.

numba counts the variables that hold an array. A copy costs an atomic addition and an atomic subtraction, which LLVM
cannot remove if a loop is between the two.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import remove_dels, replace_vars
from numba.core.postproc import PostProcessor
from numba.core.untyped_passes import InlineInlinables


class Place(NamedTuple):
    """A statement of a function: the number of its block, and its number there."""

    block: int
    number: int


def copies(blocks: Any) -> dict[str, Any]:
    """Return variable -> the one that it is a copy of, wherever it is read.

    Both are assigned by one statement, which every path reaches before one that reads them. So whenever the original is
    assigned again, the copy is, too, before it is read.
    """
    assigned: Mapping[str, list[Place]] = defaultdict(list)
    read: Mapping[str, list[Place]] = defaultdict(list)
    for label, block in blocks.items():
        for number, statement in enumerate(block.body):
            target = statement.target.name if isinstance(statement, ir.Assign) else None
            for variable in statement.list_vars():
                places = assigned if variable.name == target else read
                places[variable.name].append(Place(label, number))
    dominators = compute_cfg_from_blocks(blocks).dominators()

    def is_assigned_once(variable: Any) -> bool:
        first, *others = assigned[variable.name]
        return not others and all(
            first.number < place.number if first.block == place.block else first.block in dominators[place.block]
            for place in read[variable.name]
        )

    return {
        each.target.name: each.value
        for block in blocks.values()
        for each in block.find_insts(ir.Assign)
        if isinstance(each.value, ir.Var) and is_assigned_once(each.target) and is_assigned_once(each.value)
    }


@register_pass(mutates_CFG=False, analysis_only=False)
class RemoveCopies(FunctionPass):
    """The step: it replaces the variables that :func:`copies` finds."""

    _name = "remove_copies"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Replace copies by their originals, and remove the assignments. Return whether there were any."""
        blocks = state.func_ir.blocks
        remove_dels(blocks)
        found = copies(blocks)
        for block in blocks.values():
            block.body = [
                each for each in block.body if not isinstance(each, ir.Assign) or each.target.name not in found
            ]
        for name in found:
            del state.func_ir._definitions[name]
            while found[name].name in found:
                found[name] = found[found[name].name]
        replace_vars(blocks, found)
        PostProcessor(state.func_ir).run()
        return bool(found)


class Compiler(CompilerBase):
    """numba's compiler, which removes copies after functions are inlined."""

    def define_pipelines(self) -> list[Any]:
        """Return the steps."""
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(RemoveCopies, InlineInlinables)
        steps.finalize()
        return [steps]
