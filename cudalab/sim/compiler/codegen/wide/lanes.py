"""Vectorisation of LLVM IR lines: code for one thread is widened to several neighbouring threads, the *lanes*.

Lowering writes code for one thread: ``add i32 %a, %b``. For wide code each value has a shape:

- *uniform*: the same in all lanes; an ordinary LLVM value;
- :class:`Affine`: an integer or pointer with a constant stride between lanes; only the value of lane 0 is kept;
- :class:`Vector`: varying; an LLVM vector.

``Lanes.widen`` takes a line with an operand that is not uniform. If the result is affine it writes the line for lane 0,
otherwise a vector instruction. Integers wrap as they do in each thread. Only when a narrow integer is extended could
lanes wrap differently; known trailing zeros of affine values rule that out, or a run-time guard is written
(``Lanes.guard``).

A line of an unknown form raises :class:`NotWide`; such code remains scalar, one thread at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from cudalab.sim.compiler.codegen.emitter import Emitter
from cudalab.sim.compiler.codegen.shapes import (
    Affine,
    NotWide,
    Vector,
    bytes_of,
    extended_literal,
    memory_operands,
    split_operands,
    suffix,
    trailing_zeros,
    typed,
)
from cudalab.sim.compiler.passes.rematerialisation import Level

_NAME = re.compile(r"%[\w.]+")
_FLAGS = frozenset(["nuw", "nsw", "exact", "nneg", "disjoint", "volatile"])
_ARITHMETIC = frozenset(["add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor"])
_BINARY = _ARITHMETIC | frozenset("udiv sdiv urem srem fadd fsub fmul fdiv frem".split())
_CASTS = frozenset("trunc zext sext fptrunc fpext bitcast uitofp sitofp fptosi fptoui".split())
_SCALAR_ARGUMENTS = {"llvm.cttz": (1,), "llvm.ctlz": (1,), "llvm.abs": (1,), "llvm.is.fpclass": (1,)}
#: Pure functions of the C and the runtime library: called once per lane.
_PURE = re.compile(
    r"(?:sinf|cosf|exp2f|log2f|tanhf|fmaf?|fmodf?)$|cl_(?:add|sub|mul|div|fma|sqrt|from|narrow)_\w+$|cl_widen_f16$"
)


class Lanes(Emitter):
    """An emitter whose lines are for ``width`` lanes. Mixed into the skeletons of kernels (``codegen.wide``)."""

    width: int = 16
    #: While an atomic is written for one lane: the pointer to what it updates.
    lane_pointer = ""

    def begin_lanes(self) -> None:
        """Reset the shapes of values; call before anything is written."""
        self.shapes: dict[str, Affine | Vector] = {}
        self.zeros: dict[str, int] = {}
        self.vectors: dict[tuple[str, str], str] = {}
        self.early_vectors: dict[tuple[str, str], str] = {}  # computed in a prologue
        self.mask: str | None = None  # <width x i1>, None: all lanes
        self.may_restart = True

    # -- operands

    def vector_type(self, type: str) -> str:
        return f"<{self.width} x {type}>"

    def raw(self, text: str) -> str:
        """Write a line unchanged."""
        return super().new(text)

    def keyed(self, shape: Affine | Vector) -> str:
        """A symbolic name for a value of this shape."""
        if isinstance(shape, Affine) and not shape.stride:
            self.zeros.setdefault(shape.base, shape.zeros)
            return shape.base
        if isinstance(shape, Vector):
            self.shapes[shape.name] = shape
            return shape.name
        self.count += 1
        name = f"%{self.prefix}x{self.count}"
        self.shapes[name] = shape
        return name

    def known_zeros(self, value: str) -> int:
        if value[0] != "%":
            return trailing_zeros(int(value)) if value.lstrip("-").isdigit() else 0
        return self.zeros.get(value, 0)

    def affine(self, value: str, type: str) -> Affine | None:
        """The affine shape of an operand (stride 0 if uniform); None for vectors."""
        shape = self.shapes.get(value)
        if isinstance(shape, Vector):
            return None
        return shape if shape is not None else Affine(value, 0, self.known_zeros(value), type)

    def is_uniform(self, value: str) -> bool:
        return value not in self.shapes

    def ramp(self, type: str, stride: int) -> str:
        """A constant vector: 0, stride, 2·stride …"""
        bits = 64 if type == "ptr" else int(type[1:])
        limit = 1 << bits
        values = (stride * lane & limit - 1 for lane in range(self.width))
        return "<" + ", ".join(f"i{bits} {value}" for value in values) + ">"

    def vector(self, value: str, type: str) -> str:
        """An operand as a vector."""
        shape = self.shapes.get(value)
        if isinstance(shape, Vector):
            return shape.name
        if shape is None and value[0] != "%":
            return f"splat ({type} {value})"
        found = self.vectors.get((value, type)) or self.early_vectors.get((value, type))
        if found is not None:
            return found
        whole = self.vector_type(type)
        if shape is None:
            first = self.raw(f"insertelement {whole} poison, {type} {value}, i64 0")
            found = self.raw(
                f"shufflevector {whole} {first}, {whole} poison, {self.vector_type('i32')} zeroinitializer"
            )
        elif type == "ptr":
            found = self.raw(
                f"getelementptr i8, ptr {shape.base}, {self.vector_type('i64')} {self.ramp('ptr', shape.stride)}"
            )
        else:
            splat = self.vector(shape.base, type)
            found = self.raw(f"add {whole} {splat}, {self.ramp(type, shape.stride)}")
        self.vectors[value, type] = found
        return found

    def made(self, text: str, type: str) -> str:
        """Write a line whose result is a vector of ``type``."""
        return self.keyed(Vector(self.raw(text), type))

    @contextmanager
    def at(self, level: Level) -> Iterator[None]:
        """As :meth:`Emitter.at`; values computed in the body are not valid in a prologue."""
        saved, self.vectors = self.vectors, self.early_vectors
        mask, self.mask = self.mask, None
        try:
            with super().at(level):
                yield
        finally:
            self.vectors, self.mask = saved, mask

    # -- lines

    def new(self, text: str) -> str:
        if self.level in self.scalar_levels:
            return self._scalar(text)
        shapes = self.shapes
        for name in _NAME.findall(text):
            if name in shapes:
                return self.widen(text)
        return self._scalar(text)

    #: Prologues whose values are all uniform.
    scalar_levels: frozenset[object] = frozenset()

    def _scalar(self, text: str) -> str:
        operation, _, rest = text.partition(" ")
        if operation in ("sext", "zext"):
            number = extended_literal(operation, rest)
            if number is not None:
                return number
        name = self.raw(text)
        if operation in ("mul", "add", "sub", "shl", "and", "or", "sext", "zext", "trunc"):
            zeros = self._zeros_of(operation, rest)
            if zeros:
                self.zeros[name] = zeros
        elif operation in ("atomicrmw", "cmpxchg") and not self.lane_pointer:
            raise NotWide("an atomic")
        elif operation == "call" and "@llvm." not in text and not _PURE.match(text.partition("@")[2].partition("(")[0]):
            raise NotWide("a call")
        elif operation == "load" and ("volatile" in text or "atomic" in text) and self.level is None:
            raise NotWide("a volatile or atomic load")
        return name

    def _zeros_of(self, operation: str, rest: str) -> int:
        if operation in ("sext", "zext", "trunc"):
            value = rest.split(" ")[1]
            return min(self.known_zeros(value), 64)
        operands = rest.split(", ")
        if len(operands) != 2:
            return 0
        a, b = operands[0].rsplit(" ", 1)[-1], operands[1]
        first, second = self.known_zeros(a), self.known_zeros(b)
        if operation == "mul":
            return min(first + second, 64)
        if operation == "shl":
            return min(first + int(b), 64) if b.isdigit() else first
        if operation == "and":
            return max(first, second)
        return min(first, second)

    def widen(self, text: str) -> str:
        """Write a line for all lanes; returns the name of its result."""
        operation, _, rest = text.partition(" ")
        if "<" in text:
            raise NotWide("a value that is a short vector already")
        if operation in _BINARY:
            return self._binary(operation, rest)
        if operation in ("icmp", "fcmp"):
            words = rest.split(" ", 2)
            a, b = split_operands(words[2])
            type = words[1]
            whole = self.vector_type(type)
            return self.made(f"{operation} {words[0]} {whole} {self.vector(a, type)}, {self.vector(b, type)}", "i1")
        if operation == "select":
            return self._select(rest)
        if operation in _CASTS:
            return self._cast(operation, rest)
        if operation == "fneg":
            type, value = typed(rest)
            return self.made(f"fneg {self.vector_type(type)} {self.vector(value, type)}", type)
        if operation == "getelementptr":
            return self._element(rest)
        if operation == "load":
            return self._load(rest)
        if operation == "call":
            return self._call(rest)
        raise NotWide(f"{operation} of values that differ between lanes")

    def _binary(self, operation: str, rest: str) -> str:
        left, b = split_operands(rest)
        words = left.split(" ")
        while words[0] in _FLAGS:
            words.pop(0)
        type, a = words[0], " ".join(words[1:])
        if operation in _ARITHMETIC and type != "i1":
            found = self._affine_result(operation, type, a, b)
            if found is not None:
                return self.keyed(found)
        return self.made(f"{operation} {self.vector_type(type)} {self.vector(a, type)}, {self.vector(b, type)}", type)

    def _affine_result(self, operation: str, type: str, a: str, b: str) -> Affine | None:
        x, y = self.affine(a, type), self.affine(b, type)
        if x is None or y is None:
            return None
        bits = int(type[1:])
        if operation in ("add", "sub"):
            stride = x.stride + y.stride if operation == "add" else x.stride - y.stride
            return self._based(f"{operation} {type} {x.base}, {y.base}", stride, min(x.zeros, y.zeros), type)
        if operation == "mul" and y.stride and not x.stride:
            x, y, a, b = y, x, b, a
        literal = int(b) if b[0] != "%" else None
        if y.stride or literal is None:
            return None
        if operation == "mul":
            signed = literal - (1 << bits) if literal >> bits - 1 & 1 and literal > 0 else literal
            zeros = min(64, x.zeros + trailing_zeros(literal))
            return self._based(f"mul {type} {x.base}, {b}", x.stride * signed, zeros, type)
        if operation == "shl" and 0 <= literal < bits:
            return self._based(f"shl {type} {x.base}, {b}", x.stride << literal, min(64, x.zeros + literal), type)
        # the lanes differ only in bits that are zero in lane 0
        if not (x.stride > 0 and x.stride * (self.width - 1) < 1 << min(x.zeros, bits - 1)):
            return None
        low = 1 << (x.stride * (self.width - 1)).bit_length()
        if operation in ("lshr", "ashr") and low <= 1 << literal < 1 << bits:
            return self._based(f"{operation} {type} {x.base}, {b}", 0, max(0, x.zeros - literal), type)
        if operation == "and" and literal & low - 1 == low - 1:
            return self._based(f"and {type} {x.base}, {b}", x.stride, x.zeros, type)
        if operation == "and" and not literal & low - 1:
            return self._based(f"and {type} {x.base}, {b}", 0, max(x.zeros, trailing_zeros(literal)), type)
        if operation in ("or", "xor") and not literal & low - 1:
            return self._based(
                f"{operation} {type} {x.base}, {b}", x.stride, min(x.zeros, trailing_zeros(literal)), type
            )
        return None

    def _based(self, text: str, stride: int, zeros: int, type: str) -> Affine:
        return Affine(self.raw(text), stride, zeros, type)

    def _select(self, rest: str) -> str:
        condition, first, second = split_operands(rest)
        condition = condition.split(" ", 1)[1]
        type, a = typed(first)
        b = typed(second)[1]
        x, y = self.affine(a, type), self.affine(b, type)
        if self.is_uniform(condition):
            if type[0] == "i" and type != "i1" and x and y and x.stride == y.stride:
                text = f"select i1 {condition}, {type} {x.base}, {type} {y.base}"
                return self.keyed(self._based(text, x.stride, min(x.zeros, y.zeros), type))
            head = f"i1 {condition}"
        else:
            head = f"{self.vector_type('i1')} {self.vector(condition, 'i1')}"
        whole = self.vector_type(type)
        return self.made(f"select {head}, {whole} {self.vector(a, type)}, {whole} {self.vector(b, type)}", type)

    def _cast(self, operation: str, rest: str) -> str:
        source, _, target = rest.rpartition(" to ")
        words = source.split(" ")
        if words[0] in _FLAGS:
            words.pop(0)
        type, value = words[0], " ".join(words[1:])
        shape = self.affine(value, type)
        if shape is not None and shape.stride:
            if operation == "trunc" and target != "i1":
                text = f"trunc {type} {shape.base} to {target}"
                bits = int(target[1:])
                stride = (shape.stride + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
                return self.keyed(self._based(text, stride, min(shape.zeros, bits), target))
            if operation in ("sext", "zext") and self._extends_evenly(operation, shape):
                text = f"{operation} {type} {shape.base} to {target}"
                return self.keyed(self._based(text, shape.stride, shape.zeros, target))
        text = f"{operation} {self.vector_type(type)} {self.vector(value, type)} to {self.vector_type(target)}"
        return self.made(text, target)

    def _extends_evenly(self, operation: str, shape: Affine) -> bool:
        """Whether no lane wraps before an extension: proved by known low bits, or enforced by a guard."""
        reach = shape.stride * (self.width - 1)
        bits = int(shape.type[1:])
        if 0 < reach < 1 << min(shape.zeros, bits - 1):
            return True
        if not (self.may_restart or self.level is not None) or abs(reach) >= 1 << bits - 2:
            return False
        kind = "s" if operation == "sext" else "u"
        name = f"llvm.{kind}{'add' if reach > 0 else 'sub'}.with.overflow.{shape.type}"
        self.unit.declare(name, f"declare {{{shape.type}, i1}} @{name}({shape.type}, {shape.type})")
        pair = self.raw(f"call {{{shape.type}, i1}} @{name}({shape.type} {shape.base}, {shape.type} {abs(reach)})")
        self.guard(self.raw(f"extractvalue {{{shape.type}, i1}} {pair}, 1"))
        return True

    def guard(self, condition: str) -> None:
        """If ``condition`` (i1) holds, fall back to scalar code for this group of threads; it has had no side effects
        yet."""
        raise NotImplementedError

    # -- memory

    def _element(self, rest: str) -> str:
        unit, pointer, index = split_operands(rest)
        if unit != "i8":
            raise NotWide("an array of words indexed by lane")
        pointer, (type, value) = pointer.split(" ", 1)[1], typed(index)
        start, offset = self.affine(pointer, "ptr"), self.affine(value, type)
        if start is not None and offset is not None and type == "i64":
            text = f"getelementptr i8, ptr {start.base}, i64 {offset.base}"
            return self.keyed(self._based(text, start.stride + offset.stride, 0, "ptr"))
        if type != "i64":
            raise NotWide("an index that is not extended")
        first = (
            f"ptr {pointer}" if self.is_uniform(pointer) else f"{self.vector_type('ptr')} {self.vector(pointer, 'ptr')}"
        )
        second = f"i64 {value}" if self.is_uniform(value) else f"{self.vector_type('i64')} {self.vector(value, 'i64')}"
        return self.made(f"getelementptr i8, {first}, {second}", "ptr")

    def all_or_mask(self) -> str:
        return self.mask if self.mask is not None else "splat (i1 true)"

    def _load(self, rest: str) -> str:
        type, pointer, alignment = memory_operands(rest)
        whole, lanes = self.vector_type(type), self.vector_type("i1")
        shape = self.shapes[pointer]
        if isinstance(shape, Affine) and shape.stride == bytes_of(type):
            if self.mask is None:
                return self.made(f"load {whole}, ptr {shape.base}, align {alignment}", type)
            name = f"llvm.masked.load.v{self.width}{suffix(type)}.p0"
            self.unit.declare(name, f"declare {whole} @{name}(ptr, i32, {lanes}, {whole})")
            arguments = f"ptr {shape.base}, i32 {alignment}, {lanes} {self.mask}, {whole} zeroinitializer"
            return self.made(f"call {whole} @{name}({arguments})", type)
        bytes_of(type)
        pointers = self.vector_type("ptr")
        name = f"llvm.masked.gather.v{self.width}{suffix(type)}.v{self.width}p0"
        self.unit.declare(name, f"declare {whole} @{name}({pointers}, i32, {lanes}, {whole})")
        return self.made(
            f"call {whole} @{name}({pointers} {self.vector(pointer, 'ptr')}, i32 {alignment}, "
            f"{lanes} {self.all_or_mask()}, {whole} zeroinitializer)",
            type,
        )

    def emit(self, line: str) -> None:
        if line.startswith("store") and self.level is None:
            self.may_restart = False
            names = _NAME.findall(line)
            if "volatile" in line or "atomic" in line:
                raise NotWide("a volatile or atomic store")
            if any(name in self.shapes for name in names):
                self._store(line)
                return
        elif self.level is None and not line.startswith(("br ", "fence ")):
            raise NotWide(line.partition(" ")[0])
        super().emit(line)

    def _store(self, line: str) -> None:
        value, pointer, *rest = split_operands(line.removeprefix("store "))
        type, value = typed(value)
        pointer = pointer.split(" ", 1)[1]
        alignment = int(rest[0].split(" ")[1]) if rest else bytes_of(type)
        whole, lanes = self.vector_type(type), self.vector_type("i1")
        shape = self.shapes.get(pointer)
        if shape is None:  # the last of the active lanes wins
            last = self.last_lane()
            one = self.raw(f"extractelement {whole} {self.vector(value, type)}, i32 {last}")
            super().emit(f"store {type} {one}, ptr {pointer}, align {alignment}")
            return
        values = self.vector(value, type)
        if isinstance(shape, Affine) and shape.stride == bytes_of(type):
            if self.mask is None:
                super().emit(f"store {whole} {values}, ptr {shape.base}, align {alignment}")
                return
            name = f"llvm.masked.store.v{self.width}{suffix(type)}.p0"
            self.unit.declare(name, f"declare void @{name}({whole}, ptr, i32, {lanes})")
            super().emit(f"call void @{name}({whole} {values}, ptr {shape.base}, i32 {alignment}, {lanes} {self.mask})")
            return
        bytes_of(type)
        pointers = self.vector_type("ptr")
        name = f"llvm.masked.scatter.v{self.width}{suffix(type)}.v{self.width}p0"
        self.unit.declare(name, f"declare void @{name}({whole}, {pointers}, i32, {lanes})")
        super().emit(
            f"call void @{name}({whole} {values}, {pointers} {self.vector(pointer, 'ptr')}, i32 {alignment}, "
            f"{lanes} {self.all_or_mask()})"
        )

    def bits_of(self, mask: str) -> str:
        """A mask as an integer of ``width`` bits."""
        return self.raw(f"bitcast {self.vector_type('i1')} {mask} to i{self.width}")

    def any_of(self, mask: str) -> str:
        return self.raw(f"icmp ne i{self.width} {self.bits_of(mask)}, 0")

    def first_lane(self, mask: str | None) -> str:
        """The number of the first lane of a mask, i32."""
        if mask is None:
            return "0"
        return self.counted("cttz", self.bits_of(mask))

    def last_lane(self) -> str:
        if self.mask is None:
            return str(self.width - 1)
        return self.raw(f"sub i32 {self.width - 1}, {self.counted('ctlz', self.bits_of(self.mask))}")

    def counted(self, count: str, bits: str) -> str:
        """Leading or trailing zeros of a non-empty mask, i32."""
        kind = f"i{self.width}"
        name = f"llvm.{count}.{kind}"
        self.unit.declare(name, f"declare {kind} @{name}({kind}, i1)")
        found = self.raw(f"call {kind} @{name}({kind} {bits}, i1 true)")
        return self.raw(f"zext {kind} {found} to i32")

    # -- calls

    def _call(self, rest: str) -> str:
        head, _, tail = rest.partition("(")
        result, _, name = head.rpartition(" @")
        arguments = [typed(argument) for argument in split_operands(tail[: tail.rindex(")")])]
        if not name.startswith("llvm."):
            return self._call_each(result, name, arguments)
        if result[0] == "{" or "with.overflow" in name:
            raise NotWide(f"{name}")
        stem = name[: name.rindex(".")]
        scalars = _SCALAR_ARGUMENTS.get(stem, ())
        if "fpto" in name:
            stem, inner, outer = name.rsplit(".", 2)
            wide = f"{stem}.v{self.width}{inner}.v{self.width}{outer}"
        else:
            wide = f"{stem}.v{self.width}{name[name.rindex('.') + 1 :]}"
        values, types = [], []
        for number, (type, value) in enumerate(arguments):
            if number in scalars:
                values.append(f"{type} {value}")
                types.append(type)
            else:
                whole = self.vector_type(type)
                values.append(f"{whole} {self.vector(value, type)}")
                types.append(whole)
        whole = self.vector_type(result)
        self.unit.declare(wide, f"declare {whole} @{wide}({', '.join(types)})")
        return self.made(f"call {whole} @{wide}({', '.join(values)})", result)

    def _call_each(self, result: str, name: str, arguments: list[tuple[str, str]]) -> str:
        """Call a function without a wide form once per lane."""
        if not _PURE.match(name):
            raise NotWide(f"a call of {name}")
        whole = self.vector_type(result)
        values = [
            (type, value if self.is_uniform(value) else self.vector(value, type), value) for type, value in arguments
        ]
        found = "poison"
        for lane in range(self.width):
            own = []
            for type, vector, value in values:
                if self.is_uniform(value):
                    own.append(f"{type} {value}")
                else:
                    own.append(f"{type} {self.raw(f'extractelement {self.vector_type(type)} {vector}, i64 {lane}')}")
            one = self.raw(f"call {result} @{name}({', '.join(own)})")
            found = self.raw(f"insertelement {whole} {found}, {result} {one}, i64 {lane}")
        return self.keyed(Vector(found, result))

    def runtime(self, name: str, result: str, *arguments: str) -> str:
        if not _PURE.match(name):
            raise NotWide(f"a call of {name}")
        return super().runtime(name, result, *arguments)
