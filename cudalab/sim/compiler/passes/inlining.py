"""Call graph (with recursion and address-taken functions), and inlining of functions that contain suspension points.

A device function becomes a native function unless it waits for other threads (contains a barrier or a warp operation),
where the thread has to leave native code. Such functions are inlined into the kernels that reach them, and their
parameters live in local memory, which survives suspension.

An indirect call may reach every address-taken function with the same result and parameter sizes. A function is
address-taken if an instruction other than a call, or the initialiser of a variable (a table, a vtable), names it.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cudalab.sim import abi
from cudalab.sim.compiler.passes.control_flow import build_blocks
from cudalab.sim.compiler.passes.polling import find_poll_loops, may_poll
from cudalab.sim.compiler.passes.suspension import suspends
from cudalab.sim.compiler.ptx.errors import UnsupportedInstruction
from cudalab.sim.compiler.ptx.nodes import (
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Negated,
    Pair,
    Part,
    Register,
    Symbol,
    Vector,
)


class CallGraph:
    """The call graph.

    ``calls``: callees of each function, indirect ones included; ``symbols``: every name its body mentions;
    ``addresses``: address-taken functions with their addresses; ``waiting``: functions that reach a suspension point;
    ``recursive``: functions that reach themselves.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.calls: dict[str, list[str]] = {}
        self.symbols: dict[str, set[str]] = {}
        self.addresses = _function_addresses(module)
        own: set[str] = set()
        polling: list[Function] = []
        for function in module.functions.values():
            if function.body is None:
                continue
            callees: list[str] = []
            names: set[str] = set()
            for statement in function.body:
                if isinstance(statement, Label):
                    continue
                for operand in statement.operands:
                    _collect_symbols(operand, names)
                if statement.opcode.startswith("call"):
                    callee = statement.operands[1]
                    callees += [callee.name] if isinstance(callee, Symbol) else self.candidates(function, statement)
                elif suspends(statement.opcode) or statement.opcode.startswith("barrier.cluster."):
                    own.add(function.name)
            if not function.is_kernel and may_poll(function.body):
                polling.append(function)
            self.calls[function.name] = list(dict.fromkeys(callees))
            self.symbols[function.name] = names
        self.recursive = {name for name in self.calls if name in self.reached_from(name)}
        own.update(function.name for function in polling if self._steps_aside(function))
        self.waiting = own | {name for name in self.calls if own & set(self.reached_from(name))}

    def _steps_aside(self, function: Function) -> bool:
        """Whether it has a polling loop in which its threads can yield. Yielding requires inlining, which rules out
        recursive functions and targets of indirect calls."""
        callers = {name for name in self.calls if function.name in self.reached_from(name)} | {function.name}
        if callers & (self.recursive | self.addresses.keys()):
            return False
        return bool(find_poll_loops(build_blocks(function)))

    def candidates(self, function: Function, call: Instruction) -> list[str]:
        """Defined functions that an indirect call in ``function`` may reach."""
        returns, _, arguments = call.operands
        sizes = [
            [function.variables[element.name].size for element in vector.elements] for vector in (returns, arguments)
        ]
        found = []
        for name in self.addresses:
            other = self.module.functions[name]
            if other.body is not None and sizes == [[v.size for v in p] for p in (other.returns, other.parameters)]:
                found.append(name)
        return found

    def reached_from(self, name: str) -> list[str]:
        """Defined functions reachable from ``name``."""
        found: dict[str, None] = {}
        stack = list(self.calls.get(name, ()))
        while stack:
            callee = stack.pop()
            if callee in found or callee not in self.calls:
                continue
            found[callee] = None
            stack.extend(self.calls[callee])
        return list(found)

    def called_functions(self) -> list[str]:
        """Functions that become native functions: reachable from a kernel and without suspension points."""
        found: dict[str, None] = {}
        for kernel in self.module.kernels:
            for name in self.reached_from(kernel.name):
                if name not in self.waiting:
                    found[name] = None
        return list(found)


def _function_addresses(module: Module) -> dict[str, int]:
    """The address-taken functions and their addresses."""
    named: set[str] = set()
    for variable in module.variables.values():
        named.update(value[0] for value in variable.initial if isinstance(value, tuple))
    for function in module.functions.values():
        for statement in function.body or ():
            if isinstance(statement, Instruction) and not statement.opcode.startswith("call"):
                for operand in statement.operands:
                    _collect_symbols(operand, named)
    functions = [name for name, function in module.functions.items() if name in named and not function.is_kernel]
    return {name: abi.FUNCTION_WINDOW + abi.FUNCTION_STEP * (1 + index) for index, name in enumerate(functions)}


def _collect_symbols(operand: Any, names: set[str]) -> None:
    if isinstance(operand, Symbol):
        names.add(operand.name)
    elif isinstance(operand, Address) and isinstance(operand.base, Symbol):
        names.add(operand.base.name)
    elif isinstance(operand, Vector):
        for element in operand.elements:
            _collect_symbols(element, names)


def inline_waiting_functions(function: Function, graph: CallGraph) -> Function:
    """``function`` with every call of a waiting function replaced by its body.

    Raises:
        UnsupportedInstruction: such a function calls itself.
    """
    if not any(callee in graph.waiting for callee in graph.calls.get(function.name, ())):
        return function
    result = replace(
        function,
        body=[],
        registers=list(function.registers),
        variables=dict(function.variables),
        branch_targets=dict(function.branch_targets),
    )
    inliner = _Inliner(result, graph)
    assert function.body is not None and result.body is not None
    for statement in function.body:
        result.body.extend(inliner.expand(statement, ()))
    result.body = [inliner.through_local(statement) for statement in result.body]
    return result


class _Inliner:
    def __init__(self, result: Function, graph: CallGraph) -> None:
        self.result = result
        self.graph = graph
        self.count = 0

    def expand(self, statement: Label | Instruction, above: tuple[str, ...]) -> list[Label | Instruction]:
        if isinstance(statement, Label) or not statement.opcode.startswith("call"):
            return [statement]
        returns, callee, arguments = statement.operands
        name = getattr(callee, "name", "")
        if name not in self.graph.waiting or name not in self.graph.calls:
            return [statement]
        if name in above:
            raise UnsupportedInstruction(
                statement.opcode,
                f"the function {name} calls itself and waits for other threads inside; move __syncthreads() and warp "
                "operations out of the recursion",
                statement.location,
            )
        function = self.graph.module.functions[name]
        assert function.body is not None
        self.count += 1
        rename = _Rename(self.result, function, self.count)
        formals = [*function.returns, *function.parameters]
        for formal, actual in zip(formals, (*returns.elements, *arguments.elements), strict=True):
            rename.symbols[formal.name] = actual.name
            self._keep_in_local(actual.name)
        body: list[Label | Instruction] = []
        end = f"$inlined_end.{self.count}"
        for inner in function.body:
            if isinstance(inner, Label):
                body.append(Label(rename.symbol(inner.name)))
            else:
                copy = rename.instruction(inner)
                if copy.opcode.split(".", 1)[0] == "ret":
                    copy = Instruction("bra", (Symbol(end),), inner.line, inner.location, copy.guard, copy.negated)
                body.extend(self.expand(copy, (*above, name)))
        body.append(Label(end))
        return body

    def _keep_in_local(self, name: str) -> None:
        variable = self.result.variables[name]
        if variable.space == "param":
            self.result.variables[name] = replace(variable, space="local")

    def through_local(self, statement: Label | Instruction) -> Label | Instruction:
        """Redirect ``ld.param`` and ``st.param`` of a variable that has moved to local memory."""
        if isinstance(statement, Label) or ".param" not in statement.opcode:
            return statement
        for operand in statement.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Symbol):
                variable = self.result.variables.get(operand.base.name)
                if variable is not None and variable.space == "local":
                    opcode = statement.opcode.replace(".param", ".local")
                    return Instruction(
                        opcode,
                        statement.operands,
                        statement.line,
                        statement.location,
                        statement.guard,
                        statement.negated,
                    )
        return statement


class _Rename:
    """Clones a function's instructions with fresh registers, labels and variables."""

    def __init__(self, result: Function, function: Function, number: int) -> None:
        self.result = result
        self.function = function
        self.number = number
        self.registers: dict[Register, Register] = {}
        self.symbols: dict[str, str] = {}
        assert function.body is not None
        for statement in function.body:
            if isinstance(statement, Label):
                self.symbols[statement.name] = f"{statement.name}.i{number}"
        for table, targets in function.branch_targets.items():
            self.symbols[table] = f"{table}.i{number}"
            result.branch_targets[f"{table}.i{number}"] = tuple(self.symbols.get(name, name) for name in targets)
        formals = {variable.name for variable in (*function.returns, *function.parameters)}
        for name, variable in function.variables.items():
            if name not in formals and variable.space in ("local", "param"):
                self.symbols[name] = f"{name}.i{number}"
                result.variables[f"{name}.i{number}"] = replace(variable, name=f"{name}.i{number}")
            elif name not in formals:
                result.variables.setdefault(name, variable)

    def symbol(self, name: str) -> str:
        return self.symbols.get(name, name)

    def register(self, register: Register) -> Register:
        found = self.registers.get(register)
        if found is None:
            found = Register(f"{register.name}.i{self.number}", register.type, len(self.result.registers))
            self.result.registers.append(found)
            self.registers[register] = found
        return found

    def operand(self, operand: Any) -> Any:
        kind = type(operand)
        if kind is Register:
            return self.register(operand)
        if kind is Symbol:
            return Symbol(self.symbol(operand.name))
        if kind is Address:
            base = None if operand.base is None else self.operand(operand.base)
            return Address(base, operand.offset, tuple(self.operand(c) for c in operand.coordinates))
        if kind is Vector:
            return Vector(tuple(self.operand(element) for element in operand.elements))
        if kind is Pair:
            return Pair(self.operand(operand.first), self.operand(operand.second))
        if kind is Negated:
            return Negated(self.register(operand.register))
        if kind is Part:
            return Part(self.register(operand.register), operand.selector, operand.negated)
        return operand

    def instruction(self, instruction: Instruction) -> Instruction:
        guard = self.register(instruction.guard) if instruction.guard is not None else None
        operands = tuple(self.operand(operand) for operand in instruction.operands)
        return Instruction(
            instruction.opcode,
            operands,
            instruction.line,
            instruction.location,
            guard,
            instruction.negated,
            instruction.used_bytes,
            instruction.nounroll,
        )
