"""Number theory and bits: sieves, checksums, digests, long numbers with carry chains."""

from itertools import islice, permutations

from ..kernel import Blank, Global, Launch, i32, kernel, np, u8, u32, u64

kernel(
    "sieve_of_eratosthenes",
    "A thread a small prime strikes out its multiples: writers of the same byte are kept apart by bit atomics.",
    r"""
extern "C" __global__ void strike(unsigned* composite, int n) {
    int p = blockIdx.x * blockDim.x + threadIdx.x + 2;
    if (p * p > n) return;  // guard
    for (int d = 2; d * d <= p; d++)
        if (p % d == 0) return;
    for (int m = p * p; m <= n; m += p) atomicOr(&composite[m / 32], 1u << m % 32);
}
""",
    data=lambda rng: {"composite": np.zeros(63, u32), "n": i32(2000)},
    launch=Launch("strike", 2, 32, "composite n"),
    expect=lambda d: {"composite": composites(2000)},
)


def composites(n):
    bits = np.zeros(63 * 32, u8)
    for m in range(4, n + 1):
        bits[m] = any(m % k == 0 for k in range(2, int(m**0.5) + 1))
    return np.packbits(bits, bitorder="little").view(u32)


kernel(
    "bit_tricks",
    "Population count, leading zeros, lowest set bit, reversal: each is one instruction.",
    r"""
extern "C" __global__ void bits(const unsigned long long* in, int4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = make_int4(__popcll(in[i]), __clzll(in[i]), __ffsll(in[i]), (int)(__brevll(in[i]) >> 40));
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 2**64, 200, dtype=u64) >> rng.integers(0, 64, 200, dtype=u64),
        "out": Blank((200, 4), i32),
        "n": i32(200),
    },
    launch=Launch("bits", 2, 128, "in out n"),
    expect=lambda d: {"out": np.array([tricks(int(v)) for v in d["in"]], i32)},
    features="vectors",
)


def tricks(v):
    return v.bit_count(), 64 - v.bit_length(), (v & -v).bit_length(), int(f"{v:064b}"[::-1], 2) >> 40


kernel(
    "crc32_table",
    "A checksum a message, bytes in order; the table is built by the block in shared memory.",
    r"""
extern "C" __global__ void crc32(const unsigned char* text, const int* offsets, unsigned* crc, int messages) {
    __shared__ unsigned table[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) {
        unsigned c = k;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
        table[k] = c;
    }
    __syncthreads();
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= messages) return;  // guard
    unsigned c = ~0u;
    for (int i = offsets[m]; i < offsets[m + 1]; i++) c = table[(c ^ text[i]) & 255] ^ c >> 8;
    crc[m] = ~c;
}
""",
    data=lambda rng: {
        "text": rng.integers(0, 256, 1500, dtype=u8),
        "offsets": np.sort(np.concatenate([[0, 1500], rng.integers(0, 1500, 76)])).astype(i32),
        "crc": Blank(77, u32),
        "messages": i32(77),
    },
    launch=Launch("crc32", 2, 48, "text offsets crc messages"),
    expect=lambda d: {"crc": checksums(d["text"].tobytes(), d["offsets"])},
    features="shared",
)


def checksums(text, offsets):
    import zlib

    return np.array([zlib.crc32(text[a:b]) for a, b in zip(offsets, offsets[1:], strict=False)], u32)


def fractions(root, count):
    """First 32 bits of the fractional parts of roots of the first primes, in whole numbers."""
    primes = [p for p in range(2, 400) if all(p % d for d in range(2, int(p**0.5) + 1))][:count]
    found = []
    for p in primes:
        low, high, wanted = 0, 2**40, p << 32 * root
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**root <= wanted else (low, middle - 1)
        found.append(low % 2**32)
    return np.array(found, u32)


kernel(
    "sha256_single_block",
    "SHA-256 of messages of one block: rotations by __funnelshift_r, a schedule of 16 words in registers.",
    r"""
__constant__ unsigned round_constant[64];
__constant__ unsigned start[8];
#define ROTR(x, n) __funnelshift_r(x, x, n)
extern "C" __global__ void sha256(const unsigned* message, unsigned* digest, int count) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= count) return;  // guard
    unsigned w[16], h[8];
    for (int k = 0; k < 16; k++) w[k] = __byte_perm(message[m * 16 + k], 0, 0x0123);
    for (int k = 0; k < 8; k++) h[k] = start[k];
    #pragma unroll 1
    for (int r = 0; r < 64; r++) {
        if (r >= 16) {
            unsigned a = w[(r + 1) & 15], b = w[(r + 14) & 15];
            w[r & 15] += (ROTR(a, 7) ^ ROTR(a, 18) ^ a >> 3) + w[(r + 9) & 15] + (ROTR(b, 17) ^ ROTR(b, 19) ^ b >> 10);
        }
        unsigned t1 = h[7] + (ROTR(h[4], 6) ^ ROTR(h[4], 11) ^ ROTR(h[4], 25)) + (h[4] & h[5] ^ ~h[4] & h[6])
                    + round_constant[r] + w[r & 15];
        unsigned t2 = (ROTR(h[0], 2) ^ ROTR(h[0], 13) ^ ROTR(h[0], 22)) + (h[0] & h[1] ^ h[0] & h[2] ^ h[1] & h[2]);
        h[7] = h[6]; h[6] = h[5]; h[5] = h[4]; h[4] = h[3] + t1;
        h[3] = h[2]; h[2] = h[1]; h[1] = h[0]; h[0] = t1 + t2;
    }
    for (int k = 0; k < 8; k++) digest[m * 8 + k] = h[k] + start[k];
}
""",
    data=lambda rng: {
        "message": padded(rng.integers(0, 256, (40, 55), dtype=u8)),
        "digest": Blank((40, 8), u32),
        "count": i32(40),
        "round_constant": Global(fractions(3, 64)),
        "start": Global(fractions(2, 8)),
    },
    launch=Launch("sha256", 2, 32, "message digest count"),
    expect=lambda d: {"digest": digests(d["message"])},
    features="constant local_memory",
)


def padded(messages):
    """55 bytes, a one bit, the length in bits in the last two bytes."""
    tail = np.tile(np.array([0x80, 0, 0, 0, 0, 0, 0, 440 >> 8, 440 & 255], u8), (len(messages), 1))
    return np.concatenate([messages, tail], axis=1).view(u32)


def digests(blocks_of_64):
    import hashlib

    return np.array([np.frombuffer(hashlib.sha256(m.tobytes()[:55]).digest(), ">u4") for m in blocks_of_64], u32)


kernel(
    "gray_code_hanoi",
    "Gray codes and back: the prefix xor in five shifts.",
    r"""
extern "C" __global__ void gray(const unsigned* in, unsigned* code, unsigned* back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned g = in[i] ^ in[i] >> 1;
    code[i] = g;
    for (unsigned shift = 1; shift < 32; shift <<= 1) g ^= g >> shift;
    back[i] = g;
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 2**32, 150, dtype=u32),
        "code": Blank(150, u32),
        "back": Blank(150, u32),
        "n": i32(150),
    },
    launch=Launch("gray", 3, 64, "in code back n"),
    expect=lambda d: {"code": d["in"] ^ (d["in"] >> u32(1)), "back": d["in"]},
)

kernel(
    "big_integer_add_carry",
    "256-bit sums by a chain of add-with-carry in inline PTX: the carry flag lives in one asm statement.",
    r"""
struct Big { unsigned limb[8]; };
extern "C" __global__ void add_big(const Big* a, const Big* b, Big* sum, unsigned* carry, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    Big s, x = a[i], y = b[i];
    unsigned out;
    asm("add.cc.u32  %0, %9, %17;\n\t"
        "addc.cc.u32 %1, %10, %18;\n\t"
        "addc.cc.u32 %2, %11, %19;\n\t"
        "addc.cc.u32 %3, %12, %20;\n\t"
        "addc.cc.u32 %4, %13, %21;\n\t"
        "addc.cc.u32 %5, %14, %22;\n\t"
        "addc.cc.u32 %6, %15, %23;\n\t"
        "addc.cc.u32 %7, %16, %24;\n\t"
        "addc.u32    %8, 0, 0;"
        : "=&r"(s.limb[0]), "=&r"(s.limb[1]), "=&r"(s.limb[2]), "=&r"(s.limb[3]), "=&r"(s.limb[4]), "=&r"(s.limb[5]),
          "=&r"(s.limb[6]), "=&r"(s.limb[7]), "=&r"(out)
        : "r"(x.limb[0]), "r"(x.limb[1]), "r"(x.limb[2]), "r"(x.limb[3]), "r"(x.limb[4]), "r"(x.limb[5]),
          "r"(x.limb[6]), "r"(x.limb[7]), "r"(y.limb[0]), "r"(y.limb[1]), "r"(y.limb[2]), "r"(y.limb[3]),
          "r"(y.limb[4]), "r"(y.limb[5]), "r"(y.limb[6]), "r"(y.limb[7]));
    sum[i] = s;
    carry[i] = out;
}
""",
    data=lambda rng: {
        "a": limbs(rng),
        "b": limbs(rng),
        "sum": Blank((100, 8), u32),
        "carry": Blank(100, u32),
        "n": i32(100),
    },
    launch=Launch("add_big", 2, 64, "a b sum carry n"),
    expect=lambda d: long_sums(d["a"], d["b"]),
    features="structs inline_ptx",
)


def limbs(rng):
    """Random words, many of them all ones, so that carries run far."""
    return np.where(rng.random((100, 8)) < 0.4, 2**32 - 1, rng.integers(0, 2**32, (100, 8))).astype(u32)


def long_sums(a, b):
    sums = [
        int.from_bytes(x.tobytes(), "little") + int.from_bytes(y.tobytes(), "little") for x, y in zip(a, b, strict=True)
    ]
    rows = np.array([np.frombuffer((s % 2**256).to_bytes(32, "little"), u32) for s in sums])
    return {"sum": rows, "carry": np.array([s >> 256 for s in sums], u32)}


kernel(
    "collatz_lengths",
    "Loops of very different length: threads of a warp wait for the longest.",
    r"""
extern "C" __global__ void collatz(unsigned short* steps, int first, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned long long x = first + i;
    int count = 0;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        ++count;
    }
    steps[i] = count;
}
""",
    data=lambda rng: {"steps": Blank(300, np.uint16), "first": i32(1), "n": i32(300)},
    launch=Launch("collatz", 3, 128, "steps first n"),
    expect=lambda d: {"steps": np.array([collatz(k) for k in range(1, 301)], np.uint16)},
)


def collatz(x):
    count = 0
    while x != 1:
        x, count = 3 * x + 1 if x % 2 else x // 2, count + 1
    return count


kernel(
    "gcd_euclid_and_binary",
    "Two ways to the greatest common divisor: remainders, and shifts with subtractions; they must agree.",
    r"""
__device__ unsigned binary_gcd(unsigned a, unsigned b) {
    if (!a || !b) return a | b;
    int shift = __ffs(a | b) - 1;
    a >>= __ffs(a) - 1;
    do {
        b >>= __ffs(b) - 1;
        unsigned low = min(a, b);
        b = max(a, b) - low;
        a = low;
    } while (b);
    return a << shift;
}
extern "C" __global__ void gcds(const unsigned* a, const unsigned* b, unsigned* out, unsigned* agree, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned x = a[i], y = b[i];
    while (y) {
        unsigned r = x % y;
        x = y;
        y = r;
    }
    out[i] = x;
    if (binary_gcd(a[i], b[i]) == x) atomicAdd(agree, 1u);
}
""",
    data=lambda rng: {
        "a": rng.integers(0, 5000, 200, dtype=u32) * u32(60),
        "b": rng.integers(0, 5000, 200, dtype=u32) * u32(84),
        "out": Blank(200, u32),
        "agree": np.zeros(1, u32),
        "n": i32(200),
    },
    launch=Launch("gcds", 4, 64, "a b out agree n"),
    expect=lambda d: {"out": np.gcd(d["a"], d["b"]), "agree": u32([200])},
)

kernel(
    "modular_power_primality",
    "Powers modulo n by squaring with 128-bit products (__umul64hi): Fermat's test to base two.",
    r"""
__device__ unsigned long long multiply_mod(unsigned long long a, unsigned long long b, unsigned long long m) {
    unsigned __int128 product = (unsigned __int128)__umul64hi(a, b) << 64 | a * b;
    return (unsigned long long)(product % m);
}
extern "C" __global__ void fermat(const unsigned long long* candidates, unsigned long long* remainder, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned long long m = candidates[i], result = 1, base = 2, e = m - 1;
    for (; e; e >>= 1) {
        if (e & 1) result = multiply_mod(result, base, m);
        base = multiply_mod(base, base, m);
    }
    remainder[i] = result;
}
""",
    data=lambda rng: {
        "candidates": np.array([2**61 - 1, 2**59 - 55, 10**18 + 9, 561, 341, 1000003, *range(3, 60, 2)], u64),
        "remainder": Blank(35, u64),
        "n": i32(35),
    },
    launch=Launch("fermat", 2, 32, "candidates remainder n"),
    expect=lambda d: {"remainder": np.array([pow(2, int(m) - 1, int(m)) for m in d["candidates"]], u64)},
    features="int128",
    options=("-std=c++17", "--device-int128"),
)

kernel(
    "digits_permutation_next",
    "Counting in factorial digits: thread i writes the i-th permutation of seven things, held in a local array.",
    r"""
extern "C" __global__ void permutations(unsigned char* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;  // guard
    unsigned char left[7] = {0, 1, 2, 3, 4, 5, 6};
    int rest = i, weight = 720;
    for (int place = 0; place < 7; place++) {
        int pick = rest / weight;
        rest %= weight;
        if (place < 6) weight /= 6 - place;
        out[i * 7 + place] = left[pick];
        for (int k = pick; k < 6; k++) left[k] = left[k + 1];
    }
}
""",
    data=lambda rng: {"out": Blank((500, 7), u8), "count": i32(500)},
    launch=Launch("permutations", 4, 128, "out count"),
    expect=lambda d: {"out": np.array(list(islice(permutations(range(7)), 500)), u8)},
    features="local_memory",
)
