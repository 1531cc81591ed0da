"""Parameters of calls (PTX ISA, ``ld.param``, ``st.param``): every type and vector through a device function.

The caller stores 2 · n in each element of a parameter, n being the thread's word; the function returns their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.compiler.opcodes.case import opcodes
from tests.sim.compiler.opcodes.control import STORE, one_word
from tests.sim.compiler.opcodes.kernel import Kernel
from tests.sim.compiler.opcodes.memory import TYPES
from tests.sim.compiler.opcodes.values import BITS

_SPELLINGS = ("param", "weak.param", "param::func", "weak.param::func")


@dataclass(frozen=True)
class Passed:
    """One parameter: its type, how many elements, and the number of its function."""

    vector: str
    type: str
    number: int

    @property
    def count(self) -> int:
        return int(self.vector[1:] or 1)

    @property
    def size(self) -> int:
        return self.count * BITS[self.type] // 8

    @property
    def suffix(self) -> str:
        return f"{self.vector}.{self.type}" if self.vector else self.type

    @property
    def register(self) -> str:
        """The class of register that holds an element."""
        return self.type if self.type[0] == "f" else f"b{max(32, BITS[self.type])}"

    @property
    def names(self) -> list[str]:
        return [f"%v{self.number}_{element}" for element in range(self.count)]

    @property
    def operand(self) -> str:
        return self.names[0] if self.count == 1 else f"{{{', '.join(self.names)}}}"

    def function(self, name: str, load: str) -> str:
        """The device function."""
        lines = [f".reg .{self.register} {', '.join(self.names)};", ".reg .b32 %s, %x;", "mov.u32 %s, 0;"]
        lines.append(f"{load} {self.operand}, [value];")
        for register in self.names:
            if self.type[0] == "f":
                lines.append(f"cvt.rzi.u32.{self.type} %x, {register};")
            else:
                lines.append(f"cvt.u32.u{self.register[1:]} %x, {register};")
            lines.append("add.u32 %s, %s, %x;")
        head = f".func (.param .b32 result) {name}(.param .align 16 .b8 value[{self.size}])"
        return "\n".join([head, "{", *lines, "st.param.b32 [result], %s;", "ret;", "}"])

    def call(self, name: str, store: str, receive: str) -> list[str]:
        """The call; the function's sum is added to ``%d``."""
        lines = [f".reg .{self.register} {', '.join(self.names)};"]
        for register in self.names:
            if self.type[0] == "f":
                lines += [
                    f"cvt.rn.{self.type}.u32 {register}, %a;",
                    f"add.{self.type} {register}, {register}, {register};",
                ]
            else:
                width = self.register[1:]
                lines += [f"cvt.u{width}.u32 {register}, %a;", f"add.u{width} {register}, {register}, {register};"]
        return [
            *lines,
            "{",
            f".param .align 16 .b8 value[{self.size}]; .param .b32 result;",
            f"{store} [value], {self.operand};",
            f"call.uni (result), {name}, (value);",
            f"{receive} %i, [result];",
            "}",
            "add.u32 %d, %d, %i;",
        ]


def _all() -> list[Passed]:
    """At most 16 bytes move at once."""
    forms = [chosen for _, chosen in opcodes(f"[.v2|v4]{TYPES}")]
    found = [Passed(vector.lstrip("."), type, number) for number, (vector, type) in enumerate(forms)]
    return [passed for passed in found if passed.size <= 16]


def _kernel(spelling: str) -> Kernel:
    lines, tested, functions, total = ["mov.u32 %d, 0;"], [], [], 0
    title = "parameters_" + spelling.replace(".", "_").replace("::", "_")
    for passed in _all():
        name = f"control_{title}_{passed.number}"
        # inside the function a parameter is written without `::func`
        load = f"ld.{spelling.removesuffix('::func')}.{passed.suffix}"
        store = f"st.{spelling}.{passed.suffix}"
        receive = f"ld.{spelling}.b32"
        functions.append(passed.function(name, load))
        lines += passed.call(name, store, receive)
        tested += [load, store, receive]
        total += passed.count
    return one_word(title, [*lines, STORE, "ret;"], tested, lambda a: 2 * a * total, "\n".join(functions))


def kernels() -> list[Kernel]:
    return [_kernel(spelling) for spelling in _SPELLINGS]
