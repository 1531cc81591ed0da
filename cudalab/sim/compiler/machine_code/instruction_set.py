"""Instructions of compute capability 9.0 and 12.0: their names, pipes, and where in the encoding their operands stand.

The encoding is not documented. What stands here was gathered from public descriptions (the open-source compilers and
assemblers for compute capability 7.0 and later) and agrees with ``nvdisasm`` over the instructions of the corpus.

The lowest 12 bits of an instruction are its opcode: nine bits for the operation, three for the form, which says what
kind its second and third operands have. Form 1 has registers; 2 an immediate, 3 a constant and 7 a uniform register as
third operand; 4 an immediate, 5 a constant and 6 a uniform register as second. A second operand that is no register
leaves bits 32 to 63 to it, and a third one then stands in bits 64 to 71; so does the second where the third takes
those bits.

The pipes are those of Nsight Compute's ``smsp__inst_executed_pipe_*``.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Pipe(Enum):
    """Where an instruction executes (Nsight Compute, "Pipelines")."""

    ALU = "alu"
    """Integer and logic operations, comparisons, moves."""
    FMA = "fma"
    """32-bit floating point; either half of the FMA pipe takes it."""
    FMA_HEAVY = "fmaheavy"
    """Integer products, sums of two integers (``VIADD``), half precision: only one half of the FMA pipe does these."""
    FP64 = "fp64"
    XU = "xu"
    """Special functions, conversions, bit counts."""
    LSU = "lsu"
    """Loads, stores, atomics and shuffles."""
    TEX = "tex"
    ADU = "adu"
    """Indexed constants, barriers, branches whose target lanes may disagree about."""
    CBU = "cbu"
    """Branches, and the barriers at which lanes of a warp converge."""
    UNIFORM = "uniform"
    """Operations that are the same for the whole warp."""
    NONE = "none"
    """Done by the dispatch unit itself."""


class Operation(Struct, frozen=True):
    """One operation of the instruction set, in all its forms."""

    name: str
    pipe: Pipe
    operands: str
    """Space-separated places, each with the number of registers behind a colon where it isn't one:

    ========= =========================================================================================
    ``d``     general register written, bits 16 to 23
    ``a``     general register read, bits 24 to 31; ``l`` the same in form 1 alone; ``D`` read, bits 16 to 23
    ``b c``   second and third operand, where the form says; ``f`` is bits 32 to 39 but in form 7
    ``B C``   general registers read, bits 32 to 39 and 64 to 71; ``m`` ``n`` ``g`` the same, where the form has
              no immediate in their stead; ``e`` a second operand that may stand in the third one's place
    ``ud ua`` uniform registers of an operation on uniform registers, in the same places; so ``ub`` ``uc``
    ``U V W`` uniform registers read beside general ones, bits 32 to 37, 64 to 69 and 24 to 29; ``X`` from
              bit 40: where bit 91 says that there is one
    ``p q``   predicates written, bits 81 and 84; ``up`` ``uq`` uniform ones
    ``r s t`` predicates read, bits 87, 77 and 68; ``ur`` ``us`` ``ut`` uniform ones;
              ``k`` bit 87, where bit 78 says that the barrier reduces it
    ``Y``     uniform predicate read from bit 24, where bit 91 says that there is one
    ``P``     all predicates; ``UP`` all uniform ones
    ========= =========================================================================================

    For the number, ``w`` stands for the width of a load or store, ``A`` for that of an atomic operation's type, ``T``
    for the sizes of a conversion."""


def _table(text: str) -> dict[int, Operation]:
    found = {}
    for line in text.strip().splitlines():
        opcode, name, pipe, *operands = line.split()
        found[int(opcode, 16)] = Operation(name, Pipe(pipe), " ".join(operands))
    return found


OPERATIONS = _table("""
002 MOV         alu      d b
003 P2R         alu      d a P
004 R2P         alu      a P
005 CS2R        alu      d:2
006 VOTE        alu      d p r
007 SEL         alu      d a b r
008 FSEL        alu      d a b r
009 FMNMX       alu      d a b r
00a FSET        alu      d a b r
00b FSETP       alu      p q a b r
00c ISETP       alu      p q a b r t
00f VIMNMX3     alu      d a b c r
010 IADD3       alu      d p q a b c r s
011 LEA         alu      d p a b c r
012 LOP3        alu      d p a b c r
013 IABS        alu      d b
014 VABSDIFF    alu      d a b c
015 VABSDIFF4   alu      d a b c
016 PRMT        alu      d a b c
017 IMNMX       alu      d a b r
019 SHF         alu      d a b c
01a SGXT        alu      d a b
01b BMSK        alu      d a b
01c PLOP3       alu      p q r s t
020 FMUL        fma      d a b
021 FADD        fma      d a e
022 FSWZADD     fma      d a b
023 FFMA        fma      d a b c
024 IMAD        fmaheavy d p a b c r
025 IMAD        fmaheavy d:2 p a b c:2 r
026 IDP         fmaheavy d a b c
027 IMAD        fmaheavy d p a b c:2 r
028 DMUL        fp64     d:2 a:2 b:2
029 DADD        fp64     d:2 a:2 c:2
02a DSETP       fp64     p q a:2 e:2 r
02b DFMA        fp64     d:2 a:2 b:2 c:2
02d PREEXIT     none
02e ACQBULK     none
02f ELECT       alu      p ud r
030 HADD2       fma      d a b
031 HFMA2       fma      d a b c
032 HMUL2       fma      d a b
033 HSET2       alu      d a b r
034 HSETP2      alu      p q a b r
035 HFMA2       fmaheavy d a b c
036 VIADD       fmaheavy d a b
03e F2FP        alu      d a b
040 HMNMX2      alu      d a b r
045 I2FP        alu      d b
046 VIADDMNMX   alu      d a b c r
048 VIMNMX      alu      d a b r
03a MOVM        alu      d a
03b LDSM        lsu      d:4 a U
044 STSM        lsu      a B:4 V
080 UMOV        uniform  ud ub
082 UMOV        uniform  ud ub
083 UP2UR       uniform  ud ua UP
086 VOTEU       alu      ud up r
087 USEL        uniform  ud ua ub ur
08c UISETP      uniform  up uq ua ub ur ut
090 UIADD3      uniform  ud up uq ua ub uc ur us
091 ULEA        uniform  ud up ua ub uc ur
092 ULOP3       uniform  ud up ua ub uc ur
096 UPRMT       uniform  ud ua ub uc
097 UIADD3      uniform  ud:2 ua:2 ub:2 uc:2
099 USHF        uniform  ud ua ub uc
09a USGXT       uniform  ud ua ub
09b UBMSK       uniform  ud ua ub
09c UPLOP3      uniform  up uq ur us ut
0a4 UIMAD       uniform  ud up ua ub uc ur
0a5 UIMAD       uniform  ud:2 up ua ub uc:2 ur
0a7 UIMAD       uniform  ud up ua ub uc:2 ur
0b9 ULDC        uniform  ud:w
0bb ULDC        uniform  ud:w ua
0bd UFLO        uniform  ud ub
0be UBREV       uniform  ud ub
0bf UPOPC       uniform  ud ub
0ca R2UR        alu      ud p a
100 FLO         xu       d p b
101 BREV        xu       d b
102 FCHK        xu       p a b
104 F2F         xu       d:T b:T
105 F2I         xu       d:T b:T
106 I2F         xu       d:T b:T
107 FRND        xu       d:T b:T
108 MUFU        xu       d b
109 POPC        xu       d b
110 F2F         xu       d:T b:T
111 F2I         xu       d:T b:T
112 I2F         xu       d:T b:T
113 FRND        xu       d:T b:T
118 NOP         none
119 S2R         lsu      d
11a DEPBAR      none
11b ENDCOLLECTIVE cbu
11c B2R         adu      d p
11d BAR         adu      m g k
11e R2B         adu      B
141 BSYNC       none
142 BREAK       none      r
143 CALL        adu      l:2
144 CALL        none      l
145 BSSY        none
146 YIELD       none
147 BRA         none      r W
148 WARPSYNC    none      l
149 BRX         adu      a:2
14a JMP         none      r
14c JMX         adu      a:2
14d EXIT        cbu      r
14e LEPC        cbu      d:2
150 RET         adu      a:2
152 RPCMOV      cbu      d B
153 RPCMOV      cbu      d B
154 RPCMOV      cbu      d B
155 BMOV        cbu      d
156 BMOV        cbu      B
157 BMOV        cbu
158 BRXU        cbu      W:2
15b KILL        cbu
15c BPT         cbu
15d NANOSLEEP   cbu      m
160 TEX         tex      d:4 a B:2 C X
161 TEX         tex      d:4 a B:2 C X
163 TLD4        tex      d:4 a:2 B:2 C X
164 TLD4        tex      d:4 a:2 B:2 C X
166 TLD         tex      d:4 a B:2 C X
167 TLD         tex      d:4 a B:2 C X
169 TMML        tex      d:2 a:2 B:2 X
16d TXD         tex      d:4 a:4 B:4 X
16f TXQ         tex      d:4 a X
180 LD          lsu      d:w a:2 U:2
181 LDG         lsu      d:w a:2 U:2
182 LDC         adu      d:w a
183 LDL         lsu      d:w a U
184 LDS         lsu      d:w a U
185 ST          lsu      a:2 B:w V:2
186 STG         lsu      a:2 B:w V:2
187 STL         lsu      a B:w V
188 STS         lsu      a B:w V
189 SHFL        lsu      p d a m n
18a ATOM        lsu      p d:A a:2 B:A V:2
18b ATOM        lsu      p d:A a:2 B:A C:A
18c ATOMS       lsu      d:A a f:A V
18d ATOMS       lsu      d:A a B:A C:A
18e REDG        lsu      a:2 B:A V:2
18f CCTL        lsu      a:2
190 CCTLL       lsu      a
192 MEMBAR      lsu
198 SUATOM      tex      d:4 a:4 B:4 X
199 SULD        tex      d:4 a:4 X
19b SULD        tex      d:4 a:4 X
19c SUST        tex      a:4 B:4 X
19d SUST        tex      a:4 B:4 X
1a1 MATCH       adu      p d a:2
1a2 ATOM        lsu      p d:A a:2 B:A V:2
1a3 ATOMG       lsu      p d:A a:2 B:A V:2
1a6 REDG        lsu      a:2 B:A V:2
5a7 SYNCS       lsu      p a B V
9a7 SYNCS       lsu      d a B V
1a8 ATOMG       lsu      p d:A a:2 B:A V:2
1a9 ATOMG       lsu      p d:A a:2 B:A C:A
1aa QSPC        lsu      p d a:2
9ab ERRBAR      lsu
5ab CGAERRBAR   lsu
1ae LDGSTS      lsu      D a:2 V:2 r
1af LDGDEPBAR   lsu
1b0 ARRIVES     lsu      a V
1b1 SYNCS       lsu      a V
1b2 SYNCS       uniform  ud:2 W U:2
1b7 UTMACMDFLUSH uniform
1ba UBLKCP      uniform  U:2 W:2 V
1bb UBLKRED     uniform  U:2 W:2 V
1bc UBLKPF      uniform  W:2 V
1bd STAS        lsu      a:2 B
1c0 GETLMEMBASE none     d:2
1c1 SETLMEMBASE none     a:2
1c2 R2UR        alu      ud a
1c3 S2UR        adu      ud
1c4 REDUX       alu      ud a
1c6 FENCE       lsu
9c7 UCGABAR_ARV uniform
dc7 UCGABAR_WAIT uniform
""")
"""By the opcode without its form; by the whole opcode where the form makes another operation of it."""

OPERATIONS_OF_12 = OPERATIONS | _table("""
035 IADD        alu      d:2 p a b:2
05a UI2F        uniform  ud ub
0cb CS2UR       uniform  ud
147 BRA         none      r Y
1ac LDCU        uniform  ud:w
""")
"""Those of compute capability 12.0, as far as they are known: what differs from 9.0."""
