"""Geometry, physics and cellular automata."""

from ..kernel import Awkward, Blank, Launch, Near, Scratch, f32, f64, i32, kernel, normal, np, u8, u32

kernel(
    "n_body_tiles",
    "All pairs: a tile of bodies in shared memory serves the whole block; padding has no mass.",
    r"""
extern "C" __global__ void forces(const float4* body, float3* acceleration, int n, float soften) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = (i < n) ? body[i] : make_float4(0, 0, 0, 0);  // guard
    float3 a = {0, 0, 0};
    for (int start = 0; start < n; start += 64) {
        int j = start + threadIdx.x;
        tile[threadIdx.x] = (j < n) ? body[j] : make_float4(0, 0, 0, 0);  // guard
        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < 64; k++) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + soften);
            float pull = tile[k].w * inverse * inverse * inverse;
            a.x += pull * dx; a.y += pull * dy; a.z += pull * dz;
        }
        __syncthreads();
    }
    if (i < n) acceleration[i] = a;  // guard
}
""",
    data=lambda rng: {
        "body": np.concatenate([normal(rng, 150, 3), rng.random((150, 1), dtype=f32)], 1),
        "acceleration": Blank((150, 3), f32),
        "n": i32(150),
        "soften": f32(0.1),
    },
    launch=Launch("forces", 3, 64, "body acceleration n soften"),
    expect=lambda d: {"acceleration": pulls(d["body"].astype(f64))},
    tolerance=Near(2e-5, 1e-4, "approximate functions: rsqrtf"),
    features="shared vectors",
)


def pulls(body):
    x, mass = body[:, :3], body[:, 3]
    apart = x - x[:, None]
    return ((mass / ((apart**2).sum(2) + f64(f32(0.1))) ** 1.5)[:, :, None] * apart).sum(1).astype(f32)


def in_cells(place):
    return np.bincount(place[:, 1] // 16 * 8 + place[:, 0] // 16, minlength=64).astype(i32)


def touches(d):
    apart = ((d["place"][:, None] - d["place"]) ** 2).sum(2)
    return {"count": in_cells(d["place"]), "touching": (apart <= 144).sum(1).astype(i32) - 1}


def crowded(rng):
    place = rng.integers(0, 128, (200, 2), dtype=i32)
    place[:40] = rng.integers(112, 128, (40, 2), dtype=i32)
    return {"place": place, "count": np.zeros(64, i32), "members": Scratch(np.zeros((64, 16), i32)), "n": i32(200)}


kernel(
    "collision_uniform_grid",
    "Particles are counted into cells; a second kernel lets each look into the nine cells around it.",
    r"""
#define CELLS 8
#define ROOM 16
extern "C" __global__ void fill_cells(const int2* place, int* count, int* members, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    int cell = place[i].y / 16 * CELLS + place[i].x / 16;
    int slot = atomicAdd(&count[cell], 1);
    if (slot < ROOM) members[cell * ROOM + slot] = i;  // guard
}
extern "C" __global__ void touch(const int2* place, const int* count, const int* members, int* touching, int n,
        int reach) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    int2 p = place[i];
    int found = 0;
    for (int cy = max(p.y / 16 - 1, 0); cy <= min(p.y / 16 + 1, CELLS - 1); cy++)
        for (int cx = max(p.x / 16 - 1, 0); cx <= min(p.x / 16 + 1, CELLS - 1); cx++)
            for (int k = 0; k < min(count[cy * CELLS + cx], ROOM); k++) {
                int2 q = place[members[(cy * CELLS + cx) * ROOM + k]];
                found += (p.x - q.x) * (p.x - q.x) + (p.y - q.y) * (p.y - q.y) <= reach * reach;
            }
    touching[i] = found - 1;
}
""",
    data=lambda rng: {
        "place": rng.integers(0, 128, (200, 2), dtype=i32),
        "count": np.zeros(64, i32),
        "members": Scratch(np.zeros((64, 16), i32)),
        "touching": Blank(200, i32),
        "n": i32(200),
        "reach": i32(12),
    },
    launch=[
        Launch("fill_cells", 2, 128, "place count members n"),
        Launch("touch", 4, 64, "place count members touching n reach"),
    ],
    expect=lambda d: touches(d) if "touching" in d else {"count": in_cells(d["place"])},
    features="multi_launch vectors",
    awkward=Awkward(
        "more in the last cell than it has room for", crowded, [Launch("fill_cells", 2, 128, "place count members n")]
    ),
)

kernel(
    "mandelbrot_escape",
    "How fast does a point escape? Loops of very different length, in fixed point so that all agree exactly.",
    r"""
extern "C" __global__ void mandelbrot(unsigned char* picture, int width, int height, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;  // guard
    long long cx = -2 * 65536 + 3LL * 65536 * px / width, cy = -65536 + 2LL * 65536 * py / height;
    long long x = 0, y = 0;
    int k = 0;
    while (k < limit && x * x + y * y <= 4LL << 32) {
        long long next = ((x * x - y * y) >> 16) + cx;
        y = ((2 * x * y) >> 16) + cy;
        x = next;
        k++;
    }
    picture[py * width + px] = k;
}
""",
    data=lambda rng: {"picture": Blank((31, 45), u8), "width": i32(45), "height": i32(31), "limit": i32(60)},
    launch=Launch("mandelbrot", (6, 8), (8, 4), "picture width height limit"),
    expect=lambda d: {"picture": mandelbrot()},
)


def mandelbrot():
    py, px = np.mgrid[0:31, 0:45]
    cx, cy = -2 * 65536 + 3 * 65536 * px // 45, -65536 + 2 * 65536 * py // 31
    x, y, count = np.zeros_like(cx), np.zeros_like(cx), np.zeros(cx.shape, u8)
    for _ in range(60):
        going = x * x + y * y <= 4 << 32
        x, y = np.where(going, ((x * x - y * y) >> 16) + cx, x), np.where(going, ((2 * x * y) >> 16) + cy, y)
        count += going
    return count


kernel(
    "julia_complex_struct",
    "A class for complex numbers with overloaded operators, used in device code.",
    r"""
struct Complex {
    float r, i;
    __device__ Complex(float a, float b) : r(a), i(b) {}
    __device__ float magnitude2() const { return r * r + i * i; }
    __device__ Complex operator*(const Complex& a) const { return Complex(r * a.r - i * a.i, i * a.r + r * a.i); }
    __device__ Complex operator+(const Complex& a) const { return Complex(r + a.r, i + a.i); }
};
__device__ int julia(int x, int y, int size) {
    const float scale = 1.5f;
    Complex c(-0.75f, 0.125f), a(scale * (size / 2 - x) / (size / 2), scale * (size / 2 - y) / (size / 2));
    for (int k = 0; k < 5; k++) {
        a = a * a + c;
        if (a.magnitude2() > 1000) return 0;
    }
    return 1;
}
extern "C" __global__ void draw(uchar4* pixels, int size) {
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= size || y >= size) return;  // guard
    int in = julia(x, y, size);
    pixels[x + y * size] = make_uchar4(255 * in, 0, 255 * (1 - in), 255);
}
""",
    data=lambda rng: {"pixels": Blank((44, 44, 4), u8), "size": i32(44)},
    launch=Launch("draw", (3, 6), (16, 8), "pixels size"),
    expect=lambda d: {"pixels": julia(44)},
    features="structs vectors",
)


def julia(size):
    y, x = np.mgrid[0:size, 0:size]
    z = (1.5 * (size // 2 - x) + 1.5j * (size // 2 - y)) / (size // 2)
    escaped = np.zeros(z.shape, bool)
    for _ in range(5):
        z = np.where(escaped, z, z * z + complex(-0.75, 0.125))
        escaped |= abs(z) ** 2 > 1000
    shade = np.where(escaped, 0, 255).astype(u8)
    return np.stack([shade, 0 * shade, 255 - shade, 0 * shade + 255], -1).astype(u8)


kernel(
    "game_of_life_bits",
    "Thirty-two cells in a word: neighbours are counted for all bits at once by full adders.",
    r"""
extern "C" __global__ void life(const unsigned* in, unsigned* out, int words, int rows) {
    int w = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (w >= words || y >= rows) return;  // guard
    unsigned ones = 0, twos = 0, fours = 0;
    for (int dy = -1; dy <= 1; dy++) {
        int row = (y + dy + rows) % rows * words;
        unsigned c = in[row + w], l = in[row + (w + words - 1) % words], r = in[row + (w + 1) % words];
        unsigned parts[3] = {__funnelshift_l(l, c, 1), dy ? c : 0u, __funnelshift_r(c, r, 1)};
        for (int k = 0; k < 3; k++) {
            unsigned carry = ones & parts[k], more = twos & carry;
            ones ^= parts[k];
            twos ^= carry;
            fours |= more;
        }
    }
    out[y * words + w] = twos & ~fours & (ones | in[y * words + w]);
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 2**32, (27, 3), dtype=u32),
        "out": Blank((27, 3), u32),
        "words": i32(3),
        "rows": i32(27),
    },
    launch=Launch("life", (1, 4), (4, 8), "in out words rows"),
    expect=lambda d: {"out": life(d["in"])},
    features="local_memory",
)


def life(words):
    cells = np.unpackbits(words.view(u8), axis=1, bitorder="little").astype(int)
    around = sum(np.roll(cells, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - cells
    return np.packbits(((around == 3) | ((cells == 1) & (around == 2))).astype(u8), axis=1, bitorder="little").view(u32)


kernel(
    "game_of_life_tile",
    "The same game, a byte a cell: a tile with a ring of neighbours in shared memory, edges wrap round.",
    r"""
extern "C" __global__ void life_tile(const unsigned char* in, unsigned char* out, int n) {
    __shared__ unsigned char tile[18][18];
    int x0 = blockIdx.x * 16 - 1, y0 = blockIdx.y * 16 - 1;
    for (int k = threadIdx.y * 16 + threadIdx.x; k < 18 * 18; k += 256)
        tile[k / 18][k % 18] = in[(y0 + k / 18 + n) % n * n + (x0 + k % 18 + n) % n];
    __syncthreads();
    int x = threadIdx.x + 1, y = threadIdx.y + 1, alive = 0;
    for (int v = y - 1; v <= y + 1; v++)
        for (int u = x - 1; u <= x + 1; u++) alive += tile[v][u];
    if (x0 + x < n && y0 + y < n) out[(y0 + y) * n + x0 + x] = alive == 3 || (alive == 4 && tile[y][x]);  // guard
}
""",
    data=lambda rng: {"in": (rng.random((39, 39)) < 0.4).astype(u8), "out": Blank((39, 39), u8), "n": i32(39)},
    launch=Launch("life_tile", (3, 3), (16, 16), "in out n"),
    expect=lambda d: (lambda around: {"out": ((around == 3) | ((around == 4) & (d["in"] == 1))).astype(u8)})(
        sum(np.roll(d["in"], (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1))
    ),
    features="shared",
)

kernel(
    "boids_flock",
    "Birds that follow their neighbours: cohesion, separation and alignment from all others.",
    r"""
struct Bird { double x, y, vx, vy; };
extern "C" __global__ void flock(const Bird* before, Bird* after, int n, double reach) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    Bird b = before[i];
    double cx = 0, cy = 0, ax = 0, ay = 0, sx = 0, sy = 0;
    int others = 0;
    for (int j = 0; j < n; j++) {
        const Bird& o = before[j];
        double dx = o.x - b.x, dy = o.y - b.y, d2 = dx * dx + dy * dy;
        if (j == i || d2 > reach * reach) continue;
        others++;
        cx += dx; cy += dy;
        ax += o.vx - b.vx; ay += o.vy - b.vy;
        sx -= dx / (d2 + 0.01); sy -= dy / (d2 + 0.01);
    }
    if (others) {
        b.vx += (0.05 * cx + 0.1 * ax) / others + 0.02 * sx;
        b.vy += (0.05 * cy + 0.1 * ay) / others + 0.02 * sy;
    }
    b.x += 0.1 * b.vx;
    b.y += 0.1 * b.vy;
    after[i] = b;
}
""",
    data=lambda rng: {
        "before": rng.standard_normal((75, 4)),
        "after": Blank((75, 4), f64),
        "n": i32(75),
        "reach": f64(0.8),
    },
    launch=Launch("flock", 2, 64, "before after n reach"),
    expect=lambda d: {"after": flock(d["before"])},
    rounding=Near(1e-11, 1e-12, "sums in another order, fused multiply-add"),
    features="structs",
)


def flock(birds):
    p, v = birds[:, :2], birds[:, 2:]
    apart, d2 = p - p[:, None], ((p - p[:, None]) ** 2).sum(2)
    near = (d2 <= 0.8**2) & ~np.eye(75, dtype=bool)
    count = near.sum(1, keepdims=True)
    cohesion, alignment = (near[..., None] * apart).sum(1), (near[..., None] * (v - v[:, None])).sum(1)
    separation = -(near[..., None] * apart / (d2 + 0.01)[..., None]).sum(1)
    v = v + (0.05 * cohesion + 0.1 * alignment) / np.maximum(count, 1) + 0.02 * separation
    return np.concatenate([p + 0.1 * v, v], 1)


kernel(
    "kepler_leapfrog",
    "Ordinary differential equations: a thread an orbit, many small steps in registers, one result.",
    r"""
extern "C" __global__ void kepler(const double4* start, double4* end, double dt, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    double4 s = start[i];
    for (int k = 0; k < steps; k++) {
        s.x += 0.5 * dt * s.z;
        s.y += 0.5 * dt * s.w;
        double r2 = s.x * s.x + s.y * s.y, pull = dt / (r2 * sqrt(r2));
        s.z -= pull * s.x;
        s.w -= pull * s.y;
        s.x += 0.5 * dt * s.z;
        s.y += 0.5 * dt * s.w;
    }
    end[i] = s;
}
""",
    data=lambda rng: {
        "start": np.array([1, 0, 0, 1]) + 0.1 * rng.standard_normal((60, 4)),
        "end": Blank((60, 4), f64),
        "dt": f64(0.01),
        "steps": i32(100),
        "n": i32(60),
    },
    launch=Launch("kepler", 2, 32, "start end dt steps n"),
    expect=lambda d: {"end": kepler(d["start"].T.copy())},
    rounding=Near(1e-10, 1e-11, "fused multiply-add over many steps"),
    features="vectors",
)


def kepler(s):
    x, v = s[:2], s[2:]
    for _ in range(100):
        x = x + 0.005 * v
        v = v - 0.01 * x / (x**2).sum(0) ** 1.5
        x = x + 0.005 * v
    return np.concatenate([x, v]).T
