"""Patterns of opcodes with their operands, by chapter of the PTX ISA 9.0 ("Instruction Set").

A pattern is written as in ``ptx.table``: ``[.a|b]`` is optional, ``<a|b>`` is required. Operands are written with
``t0`` for a register of the opcode's first type (``t-1`` the last), ``w0`` for one of twice its bits, ``V0`` for as
many registers of that type as ``.v2`` … says, and names of registers by kind: ``p q`` predicates, ``h`` 16 bits, ``r``
32, ``d`` 64, ``x`` 128, ``c`` 8, ``f`` float, ``g`` double. ``[G]`` is an address in global memory, ``[S]`` in shared
memory, ``[M]`` whichever the opcode names. All else stands for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

_INT = "u16|s16|u32|s32|u64|s64"
_PAIRS = "u16x2|s16x2"
_REAL = "f16|f16x2|bf16|bf16x2|f32|f32x2|f64"
_ROUND = "[.rn|rz|rm|rp]"
_TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|f32|b64|u64|s64|f64|b128"
_CMP = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"
_ANY = "b16|b32|b64|u16|s16|u32|s32|u64|s64|f16|f16x2|bf16|bf16x2|f32|f64"
_SCOPE = "cta|cluster|gpu|sys"
_VIDEO = "<u32|s32>.<u32|s32>.<u32|s32>"


@dataclass(frozen=True)
class Syntax:
    """One pattern. ``operands``: what may stand behind it, each alternative tried until the assembler takes one."""

    chapter: str
    pattern: str
    operands: tuple[str, ...]


def _chapter(name: str, *rows: tuple[str, ...]) -> list[Syntax]:
    return [Syntax(name, pattern, operands) for pattern, *rest in rows for operands in [tuple(rest)]]


INTEGER = _chapter(
    "integer",
    (f"<add|sub>[.sat].<{_INT}|{_PAIRS}|u8x4|s8x4>", "t0, t0, t0"),
    (f"mul[.hi|lo|wide].<{_INT}|{_PAIRS}>", "t0, t0, t0", "w0, t0, t0"),
    (f"mad[.hi|lo|wide][.sat].<{_INT}>", "t0, t0, t0, t0", "w0, t0, t0, w0"),
    (f"mul24.<hi|lo>.<{_INT}>", "t0, t0, t0"),
    (f"mad24.<hi|lo>[.sat].<{_INT}>", "t0, t0, t0, t0"),
    (f"sad.<{_INT}>", "t0, t0, t0, t0"),
    (f"<div|rem>.<{_INT}>", "t0, t0, t0"),
    (f"<abs|neg>.<{_INT}|{_PAIRS}>", "t0, t0"),
    (f"<min|max>[.relu].<{_INT}|{_PAIRS}|u8x4|s8x4>", "t0, t0, t0"),
    ("<min|max>.<s32|s16x2>.relu", "t0, t0, t0"),
    ("<popc|clz|brev|cnot|not>.<b16|b32|b64|u32|pred>", "r, t0", "t0, t0"),
    ("bfind[.shiftamt].<u32|s32|u64|s64>", "r, t0"),
    ("fns.b32", "r, r, r, r"),
    ("bfe.<u32|s32|u64|s64|b32>", "t0, t0, r, r"),
    ("bfi.<b32|b64|u32>", "t0, t0, t0, r, r"),
    ("szext.<clamp|wrap>.<u32|s32>", "t0, t0, r"),
    ("bmsk.<clamp|wrap>.b32", "t0, r, r"),
    ("dp4a.<u32|s32>.<u32|s32>", "r, r, r, r"),
    ("dp2a.<lo|hi>.<u32|s32>.<u32|s32>", "r, r, r, r"),
    (f"<add|addc|sub|subc>[.cc].<{_INT}>", "t0, t0, t0"),
    (f"<mad|madc>.<hi|lo>[.cc].<{_INT}>", "t0, t0, t0, t0"),
)

FLOATING = _chapter(
    "floating",
    (f"<add|sub|mul>{_ROUND}[.ftz][.sat].<{_REAL}>", "t0, t0, t0"),
    (f"<add|sub>{_ROUND}[.sat].f32.<f16|bf16>", "f, h, f"),
    (f"fma{_ROUND}[.ftz][.sat|relu|oob].<{_REAL}>", "t0, t0, t0, t0"),
    ("fma.rn[.ftz].oob[.relu].<f16|f16x2|bf16|bf16x2>", "t0, t0, t0, t0"),
    (f"fma{_ROUND}[.sat].f32.<f16|bf16>", "f, h, h, f"),
    (f"mad{_ROUND}[.ftz][.sat].<f32|f64>", "t0, t0, t0, t0"),
    ("div<.approx|full|rn|rz|rm|rp>[.ftz].<f32|f64>".replace("<.", ".<"), "t0, t0, t0"),
    (f"<abs|neg>[.ftz].<{_REAL}>", "t0, t0"),
    (f"<min|max>[.ftz][.NaN][.xorsign.abs].<{_REAL}>".replace("[.xorsign.abs]", "[.xorsign][.abs]"), "t0, t0, t0"),
    ("<min|max>[.ftz][.NaN][.abs].f32", "f, f, f, f"),
    ("<min|max>[.ftz][.NaN][.abs].f32", "f, f, f"),
    ("<rcp|sqrt>.<approx|rn|rz|rm|rp>[.ftz].<f32|f64>", "t0, t0"),
    ("rsqrt.approx[.ftz].<f32|f64>", "t0, t0"),
    ("<sin|cos|lg2>.approx[.ftz].<f32|f16>", "t0, t0"),
    ("<ex2|tanh>.approx[.ftz].<f32|f16|f16x2|bf16|bf16x2>", "t0, t0"),
    ("testp.<finite|infinite|number|notanumber|normal|subnormal>.<f32|f64>", "p, t0"),
    ("copysign.<f32|f64>", "t0, t0, t0"),
)

COMPARISON = _chapter(
    "comparison",
    (f"setp.<{_CMP}>[.and|or|xor][.ftz].<{_ANY}>", "p, t0, t0", "p, t0, t0, q", "p|q, t0, t0", "p|q, t0, t0, q"),
    (
        f"set.<{_CMP}>[.and|or|xor][.ftz].<u16|s16|u32|s32|f16|f16x2|bf16|bf16x2|f32>.<{_ANY}>",
        "t0, t-1, t-1",
        "t0, t-1, t-1, q",
    ),
    (f"selp.<{_ANY}>", "t0, t0, t0, p"),
    ("slct[.ftz].<b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>.<s32|f32>", "t0, t0, t0, t-1"),
)

LOGIC = _chapter(
    "logic",
    ("<and|or|xor>.<pred|b16|b32|b64|u32>", "t0, t0, t0"),
    ("not.<pred|b16|b32|b64>", "t0, t0"),
    ("cnot.<b16|b32|b64>", "t0, t0"),
    ("lop3.b32", "r, r, r, r, 0xE8"),
    ("lop3.<or|and>.b32", "r|p, r, r, r, 0xE8, q", "_|p, r, r, r, 0xE8, q"),
    ("shf.<l|r>.<clamp|wrap>.<b32|b64>", "r, r, r, r"),
    ("shl.<b16|b32|b64>", "t0, t0, r"),
    ("shr.<b16|b32|b64|u16|u32|u64|s16|s32|s64>", "t0, t0, r"),
    ("prmt.b32[.f4e|b4e|rc8|ecl|ecr|rc16]", "r, r, r, r"),
)

_EIGHT = "e4m3x2|e5m2x2"
_NARROW = "e2m1x2|e2m3x2|e3m2x2|ue8m0x2"
_WHOLE = "u8|s8|u16|s16|u32|s32|u64|s64"
_FLOATS = "f16|bf16|f32|f64"
_ROUNDS = "[.rn|rz|rm|rp|rni|rzi|rmi|rpi|rna]"

CONVERSION = _chapter(
    "conversion",
    (f"cvt{_ROUNDS}[.ftz][.sat].<{_WHOLE}|{_FLOATS}>.<{_WHOLE}|{_FLOATS}>", "t0, t1"),
    ("cvt[.rn|rz|rna|rs][.satfinite][.relu].<f16|bf16|tf32>.f32", "t0, f"),
    ("cvt[.rn|rz|rna|rs][.relu][.satfinite].<f16|bf16|tf32>.f32", "t0, f"),
    ("cvt[.rn|rz|rs][.relu][.satfinite].<f16x2|bf16x2>.f32", "r, f, f", "r, f, f, r"),
    ("cvt[.rn|rz|rs][.satfinite][.relu].<f16x2|bf16x2>.f32", "r, f, f", "r, f, f, r"),
    (f"cvt.rn[.satfinite][.relu].<{_EIGHT}|e2m3x2|e3m2x2>.<f32|f16x2|bf16x2>", "h, f, f", "h, t1"),
    ("cvt.rn[.satfinite][.relu].e2m1x2.f32", "c, f, f"),
    ("cvt.<rz|rp>[.satfinite].ue8m0x2.<f32|bf16x2>", "h, f, f", "h, t1"),
    (f"cvt.rn[.relu].<f16x2|bf16x2>.<{_EIGHT}|e2m3x2|e3m2x2|ue8m0x2>", "r, h"),
    ("cvt.rn[.relu].f16x2.e2m1x2", "r, c"),
    ("cvt.rs[.relu][.satfinite].<e4m3x4|e5m2x4|e2m3x4|e3m2x4>.f32", "r, {f, f, f, f}, r"),
    ("cvt.pack.sat.<u16|s16>.s32", "r, r, r"),
    ("cvt.pack.sat.<u8|s8|u4|s4|u2|s2>.s32.b32", "r, r, r, r"),
)

MOVES = _chapter(
    "move",
    ("mov.<pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|b128>", "t0, t0"),
    ("mov.b16", "h, {c, c}", "{c, c}, h"),
    ("mov.b32", "r, {h, h}", "{h, h}, r", "r, {c, c, c, c}", "{c, c, c, c}, r", "r, c"),
    ("mov.b64", "d, {r, r}", "{r, r}, d", "d, {h, h, h, h}", "{h, h, h, h}, d", "{_, r}, d"),
    ("mov.b128", "x, {d, d}", "{d, d}, x", "x, {r, r, r, r}", "{r, r, r, r}, x"),
    ("cvta[.to].<global|const|shared|shared::cta|shared::cluster|local|param>.<u32|u64>", "t0, t0"),
    (
        "isspacep.<global|const|shared|shared::cta|shared::cluster|local|param|param::entry>",
        "p, d",
    ),
)

_LOAD_CACHE = "[.ca|cg|cs|lu|cv]"
_EVICT = (
    "[.L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate]"
    "[.L2::evict_normal|L2::evict_first|L2::evict_last]"
)
_PREFETCH = "[.L2::cache_hint][.L2::64B|L2::128B|L2::256B]"
_LEVELS = "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
_SPACES = "[.const|global|local|shared|shared::cta|shared::cluster|param|param::entry|param::func]"

MEMORY = _chapter(
    "memory",
    (f"ld[.weak|volatile|mmio]{_SPACES}{_LOAD_CACHE}[.v2|v4|v8].<{_TYPES}>", "V0, [M]"),
    (f"ld<.relaxed|acquire|mmio.relaxed>.<{_SCOPE}>{_SPACES}[.v2|v4].<{_TYPES}>".replace("<.", ".<"), "V0, [M]"),
    (
        f"ld[.weak|relaxed|acquire][.{_SCOPE}][.global]{_LOAD_CACHE}{_EVICT}{_PREFETCH}[.v2|v4|v8].<b8|u16|b32|f32|s64|b64|b128>",
        "V0, [M]",
        "V0, [M], d",
    ),
    (
        f"ld.global{_LOAD_CACHE}[.nc]{_EVICT}{_PREFETCH}[.v2|v4|v8].<{_TYPES}>",
        "V0, [M]",
        "V0, [M], d",
    ),
    (f"ldu[.global][.v2|v4].<{_TYPES}>", "V0, [M]"),
    (f"st[.weak|volatile|mmio]{_SPACES}[.wb|cg|cs|wt][.v2|v4|v8].<{_TYPES}>", "[M], V0"),
    (f"st<.relaxed|release|mmio.relaxed>.<{_SCOPE}>{_SPACES}[.v2|v4].<{_TYPES}>".replace("<.", ".<"), "[M], V0"),
    (
        f"st[.weak|relaxed|release][.{_SCOPE}][.global][.wb|cg|cs|wt]{_EVICT}[.L2::cache_hint][.v2|v4|v8]"
        ".<b8|u16|b32|f32|s64|b64|b128>",
        "[M], V0",
        "[M], V0, d",
    ),
    ("prefetch[.global|local|const|param].<L1|L2|tensormap>", "[G]"),
    (f"prefetch.global.<{_LEVELS}>", "[G]"),
    ("prefetchu.L1", "[G]"),
    (f"applypriority[.global].<{_LEVELS}>", "[G], 128"),
    ("discard[.global].L2", "[G], 128"),
    (f"createpolicy.fractional.<{_LEVELS}>[.L2::evict_first|L2::evict_unchanged].b64", "d, 0f3F000000", "d"),
    (f"createpolicy.range[.global].<{_LEVELS}>[.L2::evict_first|L2::evict_unchanged].b64", "d, [G], r, r"),
    ("createpolicy.cvt.L2.b64", "d, d"),
    ("membar.<cta|gl|sys>", ""),
    (f"fence[.sc|acq_rel|acquire|release].<{_SCOPE}>", ""),
    ("fence.<acquire|release>.sync_restrict::<shared::cta|shared::cluster>.cluster".replace("::<", "::"), ""),
    ("fence.acquire.sync_restrict::shared::cluster.cluster", ""),
    ("fence.release.sync_restrict::shared::cta.cluster", ""),
    ("fence.proxy.<alias|async|async.global|async.shared::cta|async.shared::cluster>", ""),
    ("fence.mbarrier_init.release.cluster", ""),
    (f"fence.proxy.tensormap::generic.<acquire|release>.<{_SCOPE}>", "", "[d], 128"),
    ("fence.proxy.async::generic.<acquire|release>.sync_restrict::<shared::cta|shared::cluster>.cluster", ""),
    ("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", ""),
    ("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster", ""),
    ("alloca.<u32|u64>", "t0, t0", "t0, t0, 16"),
    ("stacksave.<u32|u64>", "t0"),
    ("stackrestore.<u32|u64>", "t0"),
    ("st.bulk[.weak].shared::cta", "[S], 16, 0"),
    ("multimem.ld_reduce[.weak|relaxed].<sys|gpu>.global.<add|min|max>.<u32|s32|u64|f32|f16x2>", "t0, [G]"),
    ("multimem.st[.weak|relaxed].<sys|gpu>.global.<u32|f32|b64>", "[G], t0"),
    ("multimem.red.relaxed.<sys|gpu>.global.<add|min|max>.<u32|f32>", "[G], t0"),
)

_ORDER = "[.relaxed|acquire|release|acq_rel]"
_WHERE = f"[.{_SCOPE}][.global|shared|shared::cta|shared::cluster]"
_ATOMIC_TYPES = "b16|b32|b64|b128|u32|u64|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64"

ATOMIC = _chapter(
    "atomic",
    (
        f"atom{_ORDER}{_WHERE}.<and|or|xor|exch|add|inc|dec|min|max>[.noftz][.L2::cache_hint].<{_ATOMIC_TYPES}>",
        "t0, [M], t0",
        "t0, [M], t0, d",
    ),
    (f"atom{_ORDER}{_WHERE}.cas[.L2::cache_hint].<{_ATOMIC_TYPES}>", "t0, [M], t0, t0", "t0, [M], t0, t0, d"),
    (
        f"atom{_ORDER}{_WHERE}.<add|min|max>[.noftz][.L2::cache_hint].<v2|v4|v8>.<f32|f16|f16x2|bf16|bf16x2>",
        "V0, [M], V0",
        "V0, [M], V0, d",
    ),
    (
        f"red[.relaxed|release]{_WHERE}.<and|or|xor|add|inc|dec|min|max>[.noftz][.L2::cache_hint].<{_ATOMIC_TYPES}>",
        "[M], t0",
        "[M], t0, d",
    ),
    (
        f"red[.relaxed|release]{_WHERE}.<add|min|max>[.noftz][.L2::cache_hint].<v2|v4|v8>.<f32|f16|f16x2|bf16|bf16x2>",
        "[M], V0",
        "[M], V0, d",
    ),
    (f"atom.<global|shared|shared::cta>.<{_SCOPE}>.<and|exch|add|inc|min>.<{_ATOMIC_TYPES}>", "t0, [M], t0"),
    (f"atom.<add|min|max|and|or|xor|exch>{_ORDER}.<{_SCOPE}>.<{_ATOMIC_TYPES}>", "t0, [M], t0"),
    (f"atom.cas{_ORDER}.<{_SCOPE}>.<{_ATOMIC_TYPES}>", "t0, [M], t0, t0"),
    (f"red.<global|shared|shared::cta>.<{_SCOPE}>.<and|add|inc|min>.<{_ATOMIC_TYPES}>", "[M], t0"),
    ("red.async.relaxed.cluster[.global].<add|inc|min|and>.<u32|s32|b32|u64>", "[d], t0, [d]"),
    (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.<add|inc|dec|min|max|and|or|xor>.<u32|s32|b32|u64>",
        "[d], t0, [d]",
    ),
    ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes[.v2|v4].<b32|u32|f32|b64>", "[d], V0, [d]"),
)

WARP = _chapter(
    "warp",
    ("shfl.sync.<up|down|bfly|idx>.b32", "r, r, r, r, r", "r|p, r, r, r, r"),
    ("shfl.<up|down|bfly|idx>.b32", "r, r, r, r"),
    ("vote.sync.<all|any|uni>.pred", "p, q, r"),
    ("vote.sync.ballot.b32", "r, q, r"),
    ("vote.<all|any|uni>.pred", "p, q"),
    ("vote.ballot.b32", "r, q"),
    ("match.<any|all>.sync.<b32|b64>", "r, t0, r", "r|p, t0, r"),
    ("activemask.b32", "r"),
    ("redux.sync.<add|min|max|and|or|xor>[.abs][.NaN].<u32|s32|b32|f32>", "t0, t0, r"),
    ("elect.sync", "r|p, r", "_|p, r"),
    ("bar[.cta|warp].<sync|arrive>", "0", "0, 64", "r"),
    ("barrier[.cta].<sync|arrive>[.aligned]", "0", "0, 64"),
    ("bar[.cta].red.popc.u32", "r, 0, p", "r, 0, 64, p"),
    ("bar[.cta].red.<and|or>.pred", "p, 0, q"),
    ("barrier[.cta].red.popc[.aligned].u32", "r, 0, p"),
    ("barrier[.cta].red.<and|or>[.aligned].pred", "p, 0, q"),
    ("barrier.cluster.arrive[.release|relaxed][.aligned]", ""),
    ("barrier.cluster.wait[.acquire][.aligned]", ""),
    ("griddepcontrol.<launch_dependents|wait>", ""),
    ("mapa[.shared::cluster].<u32|u64>", "t0, t0, r"),
    ("getctarank[.shared::cluster].<u32|u64>", "r, t0"),
)

_ASYNC = "L2::cache_hint"
ASYNCHRONOUS = _chapter(
    "asynchronous",
    ("cp.async.<ca|cg>.<shared|shared::cta>.global[.L2::cache_hint][.L2::64B|L2::128B|L2::256B]", "[S], [G], 16"),
    ("cp.async.<commit_group|wait_all>", ""),
    ("cp.async.wait_group", "0"),
    ("cp.async.mbarrier.arrive[.noinc][.shared|shared::cta].b64", "[S]"),
    ("cp.async.bulk.<commit_group>", ""),
    ("cp.async.bulk.wait_group[.read]", "0"),
    ("mbarrier.<init|inval>[.shared|shared::cta].b64", "[S], 1", "[S]"),
    ("mbarrier.<arrive|arrive_drop>[.release][.cta|cluster][.shared|shared::cta].b64", "d, [S]"),
    ("mbarrier.<test_wait|try_wait>[.shared|shared::cta].b64", "p, [S], d"),
    ("mbarrier.<test_wait|try_wait>.parity[.shared|shared::cta].b64", "p, [S], r"),
    ("mbarrier.pending_count.b64", "r, d"),
)

VIDEO = _chapter(
    "video",
    (f"<vadd|vsub|vabsdiff|vmin|vmax>.{_VIDEO}[.sat]", "r, r, r", "r.b1, r.h0, r.b3, r"),
    (f"<vadd|vsub|vabsdiff|vmin|vmax>.{_VIDEO}[.sat].<add|min|max>", "r, r.b0, r.h1, r"),
    ("<vshl|vshr>.<u32|s32>.<u32|s32>.u32[.sat].<clamp|wrap>", "r, r, r", "r.h1, r.h0, r.b3, r"),
    ("<vshl|vshr>.<u32|s32>.<u32|s32>.u32[.sat].<clamp|wrap>.<add|min|max>", "r, r.b0, r.h1, r"),
    ("vmad.<u32|s32>.<u32|s32>.<u32|s32>[.sat][.shr7|shr15]", "r, r.b0, r.h1, r", "r, r, r, -r", "r, -r, r, r"),
    ("vmad.<u32|s32>.<u32|s32>.<u32|s32>.po[.sat][.shr7|shr15]", "r, r, r, r"),
    ("vset.<u32|s32>.<u32|s32>.<eq|ne|lt|le|gt|ge>", "r, r, r", "r.b1, r.h0, r.b3, r"),
    ("vset.<u32|s32>.<u32|s32>.<eq|ne|lt|le|gt|ge>.<add|min|max>", "r, r.b0, r.h1, r"),
    (f"<vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2>.{_VIDEO}[.sat|add]", "r, r, r, r", "r.h0, r.h13, r.h20, r"),
    (f"<vadd4|vsub4|vavrg4|vabsdiff4|vmin4|vmax4>.{_VIDEO}[.sat|add]", "r, r, r, r", "r.b20, r.b7310, r.b2222, r"),
    ("vset2.<u32|s32>.<u32|s32>.<eq|ne|lt|le|gt|ge>[.add]", "r, r, r, r", "r.h0, r.h13, r.h20, r"),
    ("vset4.<u32|s32>.<u32|s32>.<eq|ne|lt|le|gt|ge>[.add]", "r, r, r, r", "r.b20, r.b7310, r.b2222, r"),
)

CONTROL = _chapter(
    "control",
    ("<ret|exit>[.uni]", ""),
    ("<trap|brkpt>", ""),
    ("nanosleep.u32", "r", "100"),
    ("pmevent[.mask]", "3"),
    ("setmaxnreg.<inc|dec>.sync.aligned.u32", "64"),
)

TENSOR = _chapter(
    "tensor",
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "{f, f, f, f}, {r, r, r, r}, {r, r}, {f, f, f, f}",
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.<f16|bf16>.<f16|bf16>.f32",
        "{f, f, f, f}, {r, r, r, r}, {r, r}, {f, f, f, f}",
    ),
    ("ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16", "{r, r, r, r}, [S]"),
    ("stmatrix.sync.aligned.m8n8.x4[.trans].shared.b16", "[S], {r, r, r, r}"),
    ("movmatrix.sync.aligned.m8n8.trans.b16", "r, r"),
    ("wmma.load.<a|b>.sync.aligned.<row|col>.m16n16k16[.global|shared].f16", "{r, r, r, r, r, r, r, r}, [M], r"),
    ("wmma.load.c.sync.aligned.<row|col>.m16n16k16[.global|shared].f32", "{f, f, f, f, f, f, f, f}, [M], r"),
    ("wmma.store.d.sync.aligned.<row|col>.m16n16k16[.global|shared].f32", "[M], {f, f, f, f, f, f, f, f}, r"),
    ("wgmma.fence.sync.aligned", ""),
    ("wgmma.commit_group.sync.aligned", ""),
    ("wgmma.wait_group.sync.aligned", "0"),
    ("cp.async.bulk.prefetch.tensor.<1d>.L2.global", "[d, {r}]"),
    ("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes", "[S], [d, {r}], [S]"),
    ("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group", "[d, {r}], [S]"),
)

SYNTAX = [
    *INTEGER,
    *FLOATING,
    *COMPARISON,
    *LOGIC,
    *CONVERSION,
    *MOVES,
    *MEMORY,
    *ATOMIC,
    *WARP,
    *ASYNCHRONOUS,
    *VIDEO,
    *CONTROL,
    *TENSOR,
]
