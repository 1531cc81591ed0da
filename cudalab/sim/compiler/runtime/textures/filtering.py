"""Texture filtering: from coordinates to texels and weights, and from weighted sums to the result.

The rules and their source are in ``texture``.
"""

from __future__ import annotations

from cudalab.sim.abi import AddressMode, TexelFormat
from cudalab.sim.compiler.runtime.assembler import Function, Library, Variable
from cudalab.sim.compiler.runtime.textures.texel import begin, fraction_of, get, greater, negated, smaller

LINEAR, NORMALISED = 1, 2
"""Flags of ``cl_axis``."""
_FRACTION_BITS = 21
_LEAST_NORMAL = "0x3810000000000000"  # 2**-126


def write(library: Library) -> None:
    """Add the functions of this module."""
    _axis(library)
    _direction(library)
    _mix(library)
    _finish(library)


def _floor(f: Function, value: str) -> str:
    return f.call("llvm.floor.f64", "double", f"double {value}")


def _number(value: float) -> str:
    return f"{value:.17e}"


def _axis(library: Library) -> None:
    """``cl_axis(x, n, mode, flags, out)``: the two texels along one axis (-1: border), and the fraction in 1/256."""
    f = begin(library, "cl_axis", "void", "float x, i32 n, i32 mode, i32 flags, ptr out")
    linear = f.compare("ne", "i32", f.op(f"and i32 %flags, {LINEAR}"), 0)
    size = f.op("uitofp i32 %n to double")
    magnitude = f.call("llvm.fabs.f32", "float", "float %x")
    usable = f.op(f"fcmp oge float {magnitude}, {_LEAST_NORMAL}")  # not a NaN either
    x = f.op(f"fpext float {f.op(f'select i1 {usable}, float %x, float 0.0')} to double")
    position, mirrored = f.variable("double", x), f.variable("i1", "false")
    mode = f.variable("i32", "%mode")
    with f.if_else(f.compare("ne", "i32", f.op(f"and i32 %flags, {NORMALISED}"), 0)) as otherwise:
        repeats = f.op(
            f"or i1 {f.compare('eq', 'i32', '%mode', int(AddressMode.WRAP))}, "
            f"{f.compare('eq', 'i32', '%mode', int(AddressMode.MIRROR))}"
        )
        with f.if_(repeats):
            whole = _floor(f, x)
            rest = f.op(f"fsub double {x}, {whole}")
            rest = f.op(f"select i1 {f.op(f'fcmp ord double {rest}, 0.0')}, double {rest}, double 0.0")
            position.set(rest)
            half = f.op(f"fmul double {whole}, 0.5")
            odd = f.op(f"fcmp une double {_floor(f, half)}, {half}")
            mirrored.set(f.op(f"and i1 {odd}, {f.compare('eq', 'i32', '%mode', int(AddressMode.MIRROR))}"))
        scaled = f.op(f"fmul double {position.get()}, {_number(2.0**_FRACTION_BITS)}")
        cut = f.op(f"fmul double {_floor(f, scaled)}, {_number(2.0**-_FRACTION_BITS)}")
        position.set(f.op(f"fmul double {cut}, {size}"))
        otherwise()
        border = f.compare("eq", "i32", "%mode", int(AddressMode.BORDER))
        mode.set(f.op(f"select i1 {border}, i32 {int(AddressMode.BORDER)}, i32 {int(AddressMode.CLAMP)}"))
    first, second, fraction = (f.variable("i32", 0) for _ in range(3))
    with f.if_else(linear) as otherwise:
        fine = _floor(f, f.op(f"fadd double {f.op(f'fmul double {position.get()}, 256.0')}, 0.5"))
        fine = f.op(f"fsub double {fine}, 128.0")
        high = f.op(f"fadd double {f.op(f'fmul double {size}, 256.0')}, 1024.0")
        place = f.op(f"fptosi double {_within(f, fine, '-1024.0', high)} to i32")
        first.set(f.op(f"ashr i32 {place}, 8"))
        second.set(f.op(f"add i32 {first.get()}, 1"))
        fraction.set(f.op(f"and i32 {place}, 255"))
        otherwise()
        texel = _floor(f, position.get())
        place = f.op(f"fptosi double {_within(f, texel, '-4.0', f.op(f'fadd double {size}, 4.0'))} to i32")
        first.set(place)
        second.set(place)
    last = f.op("sub i32 %n, 1")
    for slot, chosen in enumerate((first, second)):
        value = chosen.get()
        kept = greater(f, smaller(f, value, last), 0)
        above = f.compare("sgt", "i32", value, last)
        outside = f.op(f"or i1 {f.compare('slt', 'i32', value, 0)}, {above}")
        around = f.op(f"select i1 {above}, i32 0, i32 {last}")
        wraps = f.compare("eq", "i32", mode.get(), int(AddressMode.WRAP))
        borders = f.compare("eq", "i32", mode.get(), int(AddressMode.BORDER))
        other = f.op(f"select i1 {wraps}, i32 {around}, i32 {kept}")
        other = f.op(f"select i1 {borders}, i32 -1, i32 {other}")
        chosen.set(f.op(f"select i1 {outside}, i32 {other}, i32 {value}"))
        back = f.op(f"sub i32 {last}, {chosen.get()}")
        chosen.set(f.op(f"select i1 {mirrored.get()}, i32 {back}, i32 {chosen.get()}"))
        f.store("i32", chosen.get(), "%out", 4 * slot)
    same = f.compare("eq", "i32", first.get(), second.get())
    with f.if_(f.op(f"and i1 {same}, {f.compare('eq', 'i32', mode.get(), int(AddressMode.CLAMP))}")):
        fraction.set(0)
    f.store("i32", fraction.get(), "%out", 8)
    f.ret()


def _within(f: Function, value: str, low: str, high: str) -> str:
    """A double clamped between two others."""
    value = f.op(f"select i1 {f.op(f'fcmp olt double {value}, {low}')}, double {low}, double {value}")
    return f.op(f"select i1 {f.op(f'fcmp ogt double {value}, {high}')}, double {high}, double {value}")


def _direction(library: Library) -> None:
    """``cl_direction(x, y, z, out)``: the point where a direction meets a cube: x and y (0 to 1) on the face, and its
    number (CUDA C++ Programming Guide, "Cubemap Textures")."""
    f = begin(library, "cl_direction", "void", "float x, float y, float z, ptr out")
    ax, ay, az = (f.call("llvm.fabs.f32", "float", f"float %{axis}") for axis in "xyz")
    by_z = f.op(f"and i1 {f.op(f'fcmp oge float {az}, {ax}')}, {f.op(f'fcmp oge float {az}, {ay}')}")
    by_y = f.op(f"and i1 {negated(f, by_z)}, {f.op(f'fcmp oge float {ay}, {ax}')}")
    minus = {axis: f.op(f"fneg float %{axis}") for axis in "xyz"}
    negative = {axis: f.op(f"fcmp olt float %{axis}, 0.0") for axis in "xyz"}

    def choose(z: str, y: str, x: str, type: str = "float") -> str:
        rest = f.op(f"select i1 {by_y}, {type} {y}, {type} {x}")
        return f.op(f"select i1 {by_z}, {type} {z}, {type} {rest}")

    s = choose(
        f.op(f"select i1 {negative['z']}, float {minus['x']}, float %x"),
        "%x",
        f.op(f"select i1 {negative['x']}, float %z, float {minus['z']}"),
    )
    t = choose(minus["y"], f.op(f"select i1 {negative['y']}, float {minus['z']}, float %z"), minus["y"])
    longest = choose(az, ay, ax)
    flag = choose(negative["z"], negative["y"], negative["x"], "i1")
    face = f.op(f"add i32 {choose('4', '2', '0', 'i32')}, {f.op(f'zext i1 {flag} to i32')}")
    for slot, value in enumerate((s, t)):
        quotient = f.op(f"fdiv float {value}, {longest}")
        quotient = f.op(f"select i1 {f.op(f'fcmp ueq float {longest}, 0.0')}, float 0.0, float {quotient}")
        place = f.op(f"fmul float {f.op(f'fadd float {quotient}, 1.0')}, 0.5")
        f.store("float", place, "%out", 4 * slot)
    f.store("i32", face, "%out", 8)
    f.ret()


def _mix(library: Library) -> None:
    """``cl_mix(image, texels, weights, sums)``: add four weighted texels of one slice to the sums (doubles)."""
    f = begin(library, "cl_mix", "void", "ptr image, ptr texels, ptr weights, ptr sums")
    format = get(f, "%image", "format")
    floats = f.compare("uge", "i32", format, int(TexelFormat.F16))
    half = f.compare("eq", "i32", format, int(TexelFormat.F16))
    with f.count_up("i32", get(f, "%image", "channels")) as channel:
        target = f.element("%sums", "double", channel)
        words = [f.load("i32", f.element("%texels", "i32", f.op(f"add i32 {channel}, {4 * k}"))) for k in range(4)]
        weights = [f.load("i32", "%weights", 4 * k) for k in range(4)]
        sum_ = f.variable("double", f.load("double", target))
        with f.if_else(floats) as otherwise:
            _mix_floats(f, words, weights, sum_, half)
            otherwise()
            total = "0"
            for word, weight in zip(words, weights, strict=True):
                total = f.op(f"add i32 {total}, {f.op(f'mul i32 {word}, {weight}')}")
            sum_.set(f.op(f"fadd double {sum_.get()}, {f.op(f'sitofp i32 {total} to double')}"))
        f.store("double", sum_.get(), target)
    f.ret()


def _mix_floats(f: Function, words: list[str], weights: list[str], sum_: Variable, half: str) -> None:
    exponents = []
    for word, weight in zip(words, weights, strict=True):
        exponent = f.op(f"and i32 {f.op(f'lshr i32 {word}, 23')}, 255")
        counts = f.compare("ne", "i32", weight, 0)
        exponents.append(f.op(f"select i1 {counts}, i32 {exponent}, i32 0"))
    greatest = exponents[0]
    for exponent in exponents[1:]:
        greatest = greater(f, greatest, exponent)
    with f.if_else(f.compare("eq", "i32", greatest, 255)) as otherwise:  # infinity or NaN
        for word, weight in zip(words, weights, strict=True):
            with f.if_(f.compare("ne", "i32", weight, 0)):
                real = f.op(f"fpext float {f.op(f'bitcast i32 {word} to float')} to double")
                part = f.op(f"fmul double {real}, {f.op(f'sitofp i32 {weight} to double')}")
                sum_.set(f.op(f"fadd double {sum_.get()}, {part}"))
        otherwise()
        least = f.op(f"select i1 {half}, i32 113, i32 1")  # subnormal halves are aligned to the least normal one
        greatest = greater(f, greatest, least)
        cut = f.op(f"select i1 {half}, i64 -8192, i64 -1")
        total = "0"
        for word, weight, exponent in zip(words, weights, exponents, strict=True):
            digits = f.wide(f.op(f"or i32 {f.op(f'and i32 {word}, 8388607')}, 8388608"))
            shift = f.op(f"sub i32 {greatest}, {exponent}")
            shift = f.wide(smaller(f, shift, 63))
            aligned = f.op(f"lshr i64 {f.op(f'shl i64 {digits}, 4')}, {shift}")
            aligned = f.op(f"and i64 {aligned}, {cut}")
            normal = f.compare("ne", "i32", exponent, 0)
            aligned = f.op(f"select i1 {normal}, i64 {aligned}, i64 0")
            part = f.op(f"mul i64 {aligned}, {f.wide(weight)}")
            minus = f.op(f"sub i64 0, {part}")
            part = f.op(f"select i1 {f.compare('slt', 'i32', word, 0)}, i64 {minus}, i64 {part}")
            total = f.op(f"add i64 {total}, {part}")
        # times 2 ** (greatest - 127 - 23 - 4), as a double
        power = f.op(f"shl i64 {f.wide(f.op(f'add i32 {greatest}, {1023 - 127 - 27}'))}, 52")
        scale = f.op(f"bitcast i64 {power} to double")
        part = f.op(f"fmul double {f.op(f'sitofp i64 {total} to double')}, {scale}")
        # zeros are negative when all are
        signs = "-1"
        for word, weight in zip(words, weights, strict=True):
            counts = f.compare("ne", "i32", weight, 0)
            signs = f.op(f"and i32 {signs}, {f.op(f'select i1 {counts}, i32 {word}, i32 -1')}")
        none = f.compare("eq", "i64", total, 0)
        minus = f.op(f"and i1 {none}, {f.compare('slt', 'i32', signs, 0)}")
        part = f.op(f"select i1 {minus}, double -0.0, double {part}")
        sum_.set(f.op(f"fadd double {sum_.get()}, {part}"))


def _finish(library: Library) -> None:
    """``cl_finish(image, sums, out)``: round the sums (weights add up to 256) to the kernel's result."""
    f = begin(library, "cl_finish", "void", "ptr image, ptr sums, ptr out")
    format = get(f, "%image", "format")
    f.line("store <4 x i32> zeroinitializer, ptr %out, align 1")
    with f.count_up("i32", get(f, "%image", "channels")) as channel:
        sum_ = f.load("double", f.element("%sums", "double", channel))
        target = f.element("%out", "i32", channel)
        with f.if_(f.compare("uge", "i32", format, int(TexelFormat.F16))):
            value = f.op(f"fmul double {sum_}, {_number(1 / 256)}")
            with f.if_else(f.op(f"fcmp ord double {value}, 0.0")) as otherwise:
                half = f.compare("eq", "i32", format, int(TexelFormat.F16))
                f.store("float", _rounded(f, value, half), target)
                otherwise()
                f.store("i32", 0x7FFF_FFFF, target)
        with f.if_(f.compare("ult", "i32", format, int(TexelFormat.F16))):
            total = f.op(f"fptosi double {sum_} to i32")
            for name in ("S8", "U8", "S16", "U16"):
                with f.if_(f.compare("eq", "i32", format, int(TexelFormat[name]))):
                    f.store("float", _fraction_of_sum(f, total, name), target)
    f.ret()


def _rounded(f: Function, value: str, half: str) -> str:
    """A finite double rounded to float, or to half represented as float: to nearest, ties away from zero."""
    bits = f.op(f"bitcast double {value} to i64")
    magnitude = f.op(f"and i64 {bits}, {(1 << 63) - 1}")
    dropped = f.op(f"select i1 {half}, i64 42, i64 29")
    # of a half below 2 ** -14 fewer bits remain
    exponent = f.op(f"lshr i64 {magnitude}, 52")
    missing = f.call("llvm.smax.i64", "i64", f"i64 {f.op(f'sub i64 {1023 - 14}, {exponent}')}", "i64 0")
    missing = f.op(f"select i1 {half}, i64 {missing}, i64 0")
    dropped = f.call("llvm.smin.i64", "i64", f"i64 {f.op(f'add i64 {dropped}, {missing}')}", "i64 53")
    point = f.op(f"shl i64 1, {dropped}")
    up = f.op(f"add i64 {magnitude}, {f.op(f'lshr i64 {point}, 1')}")
    kept = f.op(f"and i64 {up}, {f.op(f'sub i64 0, {point}')}")
    with_sign = f.op(f"or i64 {kept}, {f.op(f'and i64 {bits}, {-(1 << 63)}')}")
    real = f.op(f"fptrunc double {f.op(f'bitcast i64 {with_sign} to double')} to float")
    tiny = f.op(f"fcmp olt double {f.op(f'bitcast i64 {kept} to double')}, {_LEAST_NORMAL}")
    zero = f.op(f"select i1 {f.compare('slt', 'i64', bits, 0)}, float -0.0, float 0.0")
    return f.op(f"select i1 {tiny}, float {zero}, float {real}")


def _fraction_of_sum(f: Function, total: str, name: str) -> str:
    """A sum of integers by weights of 256 as a fraction."""
    if name == "U8":
        total = f.op(f"mul i32 {total}, 257")
    if name == "S8":  # 16 bits already; stretched from 127 * 256 to 32767
        more = f.op(f"shl i32 {f.op(f'ashr i32 {total}, 12')}, 4")
        more = f.op(f"add i32 {f.op(f'add i32 {total}, {more}')}, 64")
        value = f.op(f"add i32 {total}, {f.op(f'ashr i32 {more}, 7')}")
        return fraction_of(f, smaller(f, value, 32767), 32767)
    value = f.op(f"ashr i32 {f.op(f'add i32 {total}, 128')}, 8")
    return fraction_of(f, value, 32767 if name == "S16" else 65535)
