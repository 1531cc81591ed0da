"""Random numbers that a thread makes itself, and what is computed with them."""

from ..kernel import Blank, Global, Launch, Near, f32, f64, i8, i32, kernel, np, u32, u64

MASK = np.uint64(0xFFFFFFFF)

kernel(
    "xorshift_streams",
    "A generator a thread: three shifts and xors; each stream starts from its own hashed seed.",
    r"""
extern "C" __global__ void xorshift(unsigned* out, unsigned seed, int streams, int each) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= streams) return;  // guard
    unsigned x = (seed + t) * 2654435761u | 1;
    for (int k = 0; k < each; k++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        out[k * streams + t] = x;
    }
}
""",
    data=lambda rng: {"out": Blank((20, 77), u32), "seed": u32(42), "streams": i32(77), "each": i32(20)},
    launch=Launch("xorshift", 2, 64, "out seed streams each"),
    expect=lambda d: {"out": np.array(list(xorshift(seeds(42, 77), 20)))},
)


def seeds(seed, count):
    return ((seed + np.arange(count, dtype=u64)) * u64(2654435761)).astype(u32) | u32(1)


def xorshift(x, rounds):
    for _ in range(rounds):
        x = x ^ (x << u32(13))
        x = x ^ (x >> u32(17))
        x = x ^ (x << u32(5))
        yield x


kernel(
    "lcg_leapfrog",
    "One linear congruential sequence dealt out to threads: each leaps over the others' numbers by "
    "a power of the step.",
    r"""
__device__ void power(unsigned long long& a, unsigned long long& c, unsigned n) {
    unsigned long long ra = 1, rc = 0;
    while (n) {
        if (n & 1) { rc = rc * a + c; ra *= a; }
        c = (a + 1) * c;
        a *= a;
        n >>= 1;
    }
    a = ra;
    c = rc;
}
extern "C" __global__ void leapfrog(unsigned long long* out, unsigned long long seed, int n) {
    const unsigned long long A = 6364136223846793005ull, C = 1442695040888963407ull;
    unsigned threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long a = A, c = C, step_a = A, step_c = C;
    power(a, c, t + 1);
    power(step_a, step_c, threads);
    unsigned long long x = a * seed + c;
    for (int i = t; i < n; i += threads) {
        out[i] = x;
        x = step_a * x + step_c;
    }
}
""",
    data=lambda rng: {"out": Blank(700, u64), "seed": u64(12345), "n": i32(700)},
    launch=Launch("leapfrog", 2, 96, "out seed n"),
    expect=lambda d: {"out": congruential(12345, 700)},
)


def congruential(x, n):
    out = []
    for _ in range(n):
        x = (6364136223846793005 * x + 1442695040888963407) % 2**64
        out.append(x)
    return np.array(out, u64)


kernel(
    "philox_counter_based",
    "Philox 4x32-10: no state, a counter and a key give the numbers; products by __umulhi.",
    r"""
__device__ uint4 philox(uint4 c, uint2 key) {
    #pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return c;
}
extern "C" __global__ void philox_fill(uint4* out, unsigned seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 0));  // guard
}
""",
    data=lambda rng: {"out": Blank((150, 4), u32), "seed": u32(7), "n": i32(150)},
    launch=Launch("philox_fill", 2, 96, "out seed n"),
    expect=lambda d: {"out": philox(np.arange(150, dtype=u64), 7)},
    features="vectors",
)


def philox(counter, seed):
    zero = np.zeros_like(counter)
    c, k0, k1 = [counter, zero, zero, zero], seed, 0
    for _ in range(10):
        p0, p1 = c[0] * u64(0xD2511F53), c[2] * u64(0xCD9E8D57)
        c = [(p1 >> u64(32)) ^ c[1] ^ u64(k0), p1 & MASK, (p0 >> u64(32)) ^ c[3] ^ u64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack(c, 1).astype(u32)


kernel(
    "monte_carlo_pi",
    "Points in a square, hits in the circle: counted in a register, then in the warp, then by one atomic a warp.",
    r"""
__device__ unsigned next(unsigned& s) {
    s = s * 747796405u + 2891336453u;
    unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}
extern "C" __global__ void estimate_pi(unsigned long long* hits, int samples) {
    unsigned state = blockIdx.x * blockDim.x + threadIdx.x, inside = 0;
    for (int k = 0; k < samples; k++) {
        unsigned long long x = next(state) >> 1, y = next(state) >> 1;
        inside += x * x + y * y < (1ull << 62);
    }
    inside = __reduce_add_sync(0xffffffffu, inside);
    if (threadIdx.x % warpSize == 0) atomicAdd(hits, (unsigned long long)inside);
}
""",
    data=lambda rng: {"hits": np.zeros(1, u64), "samples": i32(40)},
    launch=Launch("estimate_pi", 3, 96, "hits samples"),
    expect=lambda d: {"hits": np.array([hits_of(288, 40)], u64)},
    features="warp_reduce",
)


def pcg(s):
    s = (s * u64(747796405) + u64(2891336453)) & MASK
    w = ((s >> ((s >> u64(28)) + u64(4))) ^ s) * u64(277803737) & MASK
    return s, (w >> u64(22)) ^ w


def hits_of(threads, samples):
    s, inside = np.arange(threads, dtype=u64), 0
    for _ in range(samples):
        s, x = pcg(s)
        s, y = pcg(s)
        x, y = x >> u64(1), y >> u64(1)
        inside += int((x * x + y * y < u64(2**62)).sum())
    return inside


kernel(
    "black_scholes_closed_form",
    "European options by formula: exponential, logarithm and error function; call and put together.",
    r"""
__device__ float normal_cdf(float d) { return 0.5f * erfcf(-0.70710678f * d); }
extern "C" __global__ void black_scholes(const float* __restrict__ price, const float* __restrict__ strike,
                                         const float* __restrict__ years, float2* __restrict__ option,
                                         float rate, float volatility, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float s = price[i], x = strike[i], t = years[i];
    float root = volatility * sqrtf(t);
    float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / root, d2 = d1 - root;
    float discounted = x * expf(-rate * t);
    option[i].x = s * normal_cdf(d1) - discounted * normal_cdf(d2);
    option[i].y = discounted * normal_cdf(-d2) - s * normal_cdf(-d1);
}
""",
    data=lambda rng: {
        "price": rng.uniform(5, 30, 300).astype(f32),
        "strike": rng.uniform(5, 30, 300).astype(f32),
        "years": rng.uniform(0.25, 5, 300).astype(f32),
        "option": Blank((300, 2), f32),
        "rate": f32(0.02),
        "volatility": f32(0.3),
        "n": i32(300),
    },
    launch=Launch("black_scholes", 3, 128, "price strike years option rate volatility n"),
    expect=lambda d: {"option": options(d["price"].astype(f64), d["strike"].astype(f64), d["years"].astype(f64))},
    tolerance=Near(2e-5, 2e-5, "approximate functions: logf, expf, erfcf"),
    features="vectors",
)


def options(s, x, t):
    from math import erf

    cdf = np.vectorize(lambda d: 0.5 * (1 + erf(d / 2**0.5)))
    root = 0.3 * np.sqrt(t)
    d1 = (np.log(s / x) + (0.02 + 0.045) * t) / root
    call = s * cdf(d1) - x * np.exp(-0.02 * t) * cdf(d1 - root)
    return np.stack([call, call - s + x * np.exp(-0.02 * t)], 1).astype(f32)


kernel(
    "random_walk_histogram",
    "Walkers on a line, 32 steps from one random word: population count instead of a loop.",
    r"""
extern "C" __global__ void walk(const unsigned* words, int* where, int walkers, int words_each) {
    int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= walkers) return;  // guard
    int place = 0;
    for (int k = 0; k < words_each; k++) place += 2 * __popc(words[k * walkers + w]) - 32;
    atomicAdd(&where[min(max(place + 32, 0), 64)], 1);
}
""",
    data=lambda rng: {
        "words": rng.integers(0, 2**32, (3, 500), dtype=u32),
        "where": np.zeros(65, i32),
        "walkers": i32(500),
        "words_each": i32(3),
    },
    launch=Launch("walk", 4, 128, "words where walkers words_each"),
    expect=lambda d: {
        "where": np.bincount(
            (2 * np.bitwise_count(d["words"]).astype(int) - 32).sum(0).clip(-32, 32) + 32, minlength=65
        ).astype(i32)
    },
)

kernel(
    "ising_checkerboard",
    "Metropolis on a ring-shaped lattice: white spins see only black ones, so all white ones flip at once.",
    r"""
__constant__ unsigned threshold[5];
extern "C" __global__ void metropolis(signed char* spin, int rows, int columns, int colour, unsigned sweep) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows || (x + y) % 2 != colour) return;  // guard
    int at = y * columns + x;
    int around = spin[y * columns + (x + 1) % columns] + spin[y * columns + (x + columns - 1) % columns]
               + spin[(y + 1) % rows * columns + x] + spin[(y + rows - 1) % rows * columns + x];
    int aligned = spin[at] * around;
    unsigned h = (at * 0x9E3779B1u) ^ (sweep * 0x85EBCA77u);
    h ^= h >> 15; h *= 0x2C1B3C6Du; h ^= h >> 12; h *= 0x297A2D39u; h ^= h >> 15;
    if (h < threshold[(aligned + 4) / 2]) spin[at] = -spin[at];
}
""",
    data=lambda rng: {
        "spin": rng.choice(np.array([-1, 1], i8), (26, 38)),
        "rows": i32(26),
        "columns": i32(38),
        "threshold": Global(np.array([2**32 - 1, 2**32 - 1, 2**32 - 1, 735513689, 125955000], u32)),
    },
    launch=lambda d: [
        Launch("metropolis", (3, 4), (16, 8), ("spin", "rows", "columns", i32(k % 2), u32(k // 2))) for k in range(6)
    ],
    expect=lambda d: {"spin": ising(d["spin"].astype(int), d["threshold"].value, 6).astype(i8)},
    features="constant multi_launch",
)


def ising(spin, threshold, half_sweeps):
    y, x = np.mgrid[0:26, 0:38]
    for k in range(half_sweeps):
        around = sum(np.roll(spin, s, a) for s in (1, -1) for a in (0, 1))
        h = (((y * 38 + x).astype(u64) * u64(0x9E3779B1)) & MASK) ^ u64((k // 2) * 0x85EBCA77 % 2**32)
        for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
            h = (h ^ (h >> u64(shift))) * u64(factor) & MASK
        h = h ^ (h >> u64(15))
        flips = ((x + y) % 2 == k % 2) & (h < threshold[(spin * around + 4) // 2])
        spin = np.where(flips, -spin, spin)
    return spin


kernel(
    "box_muller_normals",
    "Two uniform numbers become two normal ones: logarithm, root, sincospi.",
    r"""
extern "C" __global__ void box_muller(const unsigned* a, const unsigned* b, float* out, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) {  // guard
        float u = (a[i] + 0.5f) * 2.3283064e-10f, v = b[i] * 2.3283064e-10f;
        float s, c, r = sqrtf(-2.f * logf(u));
        sincospif(2.f * v, &s, &c);
        out[2 * i] = r * c;
        out[2 * i + 1] = r * s;
    }
}
""",
    data=lambda rng: {
        "a": rng.integers(2**12, 2**32 - 2**12, 250, dtype=u32),
        "b": rng.integers(0, 2**32, 250, dtype=u32),
        "out": Blank((250, 2), f32),
        "pairs": i32(250),
    },
    launch=Launch("box_muller", 2, 128, "a b out pairs"),
    expect=lambda d: {"out": normals(d["a"].astype(f32).astype(f64) / 2**32, d["b"].astype(f32).astype(f64) / 2**32)},
    tolerance=Near(1e-5, 3e-6, "approximate functions: logf, sincospif"),
)


def normals(u, v):
    r = np.sqrt(-2 * np.log(u))
    return np.stack([r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)], 1).astype(f32)


kernel(
    "binomial_option_tree",
    "An option by a tree that is folded back in shared memory: a block an option, one "
    "barrier-separated level at a time.",
    r"""
extern "C" __global__ void binomial(const double* strikes, double* values, double spot, double up, double chance,
                                    double discount, int steps) {
    extern __shared__ double tree[];
    double strike = strikes[blockIdx.x];
    for (int k = threadIdx.x; k <= steps; k += blockDim.x) {
        double price = spot;
        for (int j = 0; j < steps; j++) price *= j < k ? up : 1 / up;
        tree[k] = fmax(strike - price, 0.0);
    }
    __syncthreads();
    for (int level = steps; level > 0; level--) {
        double folded[2];
        for (int k = threadIdx.x, j = 0; k < level; k += blockDim.x, j++)
            folded[j] = discount * (chance * tree[k + 1] + (1 - chance) * tree[k]);
        __syncthreads();
        for (int k = threadIdx.x, j = 0; k < level; k += blockDim.x, j++) tree[k] = folded[j];
        __syncthreads();
    }
    if (threadIdx.x == 0) values[blockIdx.x] = tree[0];
}
""",
    data=lambda rng: {
        "strikes": rng.uniform(80, 120, 5),
        "values": Blank(5, f64),
        "spot": f64(100),
        "up": f64(1.03),
        "chance": f64(0.51),
        "discount": f64(0.999),
        "steps": i32(45),
    },
    launch=Launch("binomial", 5, 32, "strikes values spot up chance discount steps", shared=46 * 8),
    expect=lambda d: {"values": np.array([folded(k) for k in d["strikes"]])},
    rounding=Near(1e-10, 1e-12, "powers by repeated products"),
    features="dynamic_shared local_memory",
)


def folded(strike, steps=45):
    tree = np.maximum(strike - 100 * 1.03 ** (2.0 * np.arange(steps + 1) - steps), 0)
    for _ in range(steps):
        tree = 0.999 * (0.51 * tree[1:] + 0.49 * tree[:-1])
    return tree[0]
