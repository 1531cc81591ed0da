"""Stencils and partial differential equations: each point from its neighbours, step by step."""

from ..kernel import Blank, Global, Launch, Near, Scratch, blocks, f32, f64, i32, kernel, np, whole

kernel(
    "heat_1d_explicit",
    "Two buffers that swap from launch to launch; the ends are held.",
    r"""
extern "C" __global__ void heat_1d(const double* before, double* after, double rate, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    if (i == 0 || i == n - 1) after[i] = before[i];
    else after[i] = before[i] + rate * (before[i - 1] - 2 * before[i] + before[i + 1]);
}
""",
    data=lambda rng: {"u": rng.random(200), "v": Blank(200, f64), "rate": f64(0.25), "n": i32(200)},
    launch=lambda d: [Launch("heat_1d", 4, 64, ("uv"[k % 2], "vu"[k % 2], "rate", "n")) for k in range(7)],
    expect=lambda d: dict(zip("vu", heat_1d(d["u"], 7), strict=True)),
    rounding=Near(1e-13, 1e-14, "fused multiply-add"),
    features="multi_launch",
)


def heat_1d(u, steps):
    """The last state and the one before."""
    for _ in range(steps):
        last, u = u, u.copy()
        u[1:-1] += 0.25 * (last[:-2] - 2 * last[1:-1] + last[2:])
    return u, last


kernel(
    "heat_2d_five_point",
    "Five points, walls that are held; quarters of whole numbers stay exact.",
    r"""
extern "C" __global__ void heat_2d(const float* in, float* out, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int r = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (r < rows - 1 && c < columns - 1) {  // guard
        int i = r * columns + c;
        out[i] = 0.25f * (in[i - 1] + in[i + 1] + in[i - columns] + in[i + columns]);
    }
}
""",
    data=lambda rng: (lambda u: {"in": u, "out": u.copy(), "rows": i32(30), "columns": i32(45)})(
        whole(rng, 0, 99, 30, 45)
    ),
    launch=Launch("heat_2d", (3, 4), (16, 8), "in out rows columns"),
    expect=lambda d: {"out": five_point(d["in"])},
)


def five_point(u):
    out = u.copy()
    out[1:-1, 1:-1] = (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1]) / 4
    return out


kernel(
    "heat_3d_marching",
    "A block marches through z: the planes behind and ahead stay in registers, the present one in shared memory.",
    r"""
extern "C" __global__ void heat_3d(const float* in, float* out, int nx, int ny, int nz) {
    __shared__ float plane[10][10];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * 8 + tx, y = blockIdx.y * 8 + ty;
    bool inside = x < nx - 1 && y < ny - 1;
    size_t layer = (size_t)nx * ny, at = (size_t)min(y, ny - 1) * nx + min(x, nx - 1);
    float behind = in[at], here = in[at + layer];
    for (int z = 1; z < nz - 1; z++) {
        float ahead = in[at + (z + 1) * layer];
        __syncthreads();
        if (inside) {  // guard
            plane[ty][tx] = here;
            if (tx == 1) plane[ty][0] = in[at + z * layer - 1];
            if (tx == 8 || x == nx - 2) plane[ty][tx + 1] = in[at + z * layer + 1];
            if (ty == 1) plane[0][tx] = in[at + z * layer - nx];
            if (ty == 8 || y == ny - 2) plane[ty + 1][tx] = in[at + z * layer + nx];
        }
        __syncthreads();
        if (inside)  // guard
            out[at + z * layer] = here + 0.125f * (behind + ahead + plane[ty][tx - 1] + plane[ty][tx + 1]
                                                   + plane[ty - 1][tx] + plane[ty + 1][tx] - 6 * here);
        behind = here;
        here = ahead;
    }
}
""",
    data=lambda rng: (lambda u: {"in": u, "out": u.copy(), "nx": i32(21), "ny": i32(14), "nz": i32(9)})(
        whole(rng, 0, 64, 9, 14, 21)
    ),
    launch=Launch("heat_3d", (3, 2), (8, 8), "in out nx ny nz"),
    expect=lambda d: {"out": seven_point(d["in"])},
    features="shared",
)


def seven_point(u):
    out, c = u.copy(), u[1:-1, 1:-1, 1:-1]
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    around = around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    out[1:-1, 1:-1, 1:-1] = c + (around - 6 * c) / 8
    return out


kernel(
    "wave_equation_1d",
    "Second order in time: three states, the oldest is overwritten in place.",
    r"""
extern "C" __global__ void wave(const float* now, float* old_then_new, float c2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {  // guard
        float bend = now[i + 1] - 2.f * now[i] + now[i - 1];
        old_then_new[i] = 2.f * now[i] - old_then_new[i] + c2 * bend;
    }
}
""",
    data=lambda rng: {"a": whole(rng, -64, 64, 300), "b": whole(rng, -64, 64, 300), "c2": f32(0.25), "n": i32(300)},
    launch=lambda d: [Launch("wave", 3, 128, ("ab"[k % 2], "ba"[k % 2], "c2", "n")) for k in range(4)],
    expect=lambda d: waves(d["a"].copy(), d["b"].copy()),
    features="multi_launch",
)


def waves(a, b):
    """Four steps; all numbers are multiples of 1/256 and exact."""
    for k in range(4):
        now, old = (a, b) if k % 2 == 0 else (b, a)
        old[1:-1] = 2 * now[1:-1] - old[1:-1] + f32(0.25) * (now[2:] - 2 * now[1:-1] + now[:-2])
    return {"a": a, "b": b}


kernel(
    "jacobi_with_residual",
    "A Jacobi sweep that also measures its change: the block's largest change reaches memory by an integer atomic.",
    r"""
extern "C" __global__ void jacobi(const float* u, const float* f, float* next, unsigned* change, int n) {
    __shared__ unsigned largest;
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    bool first = threadIdx.x == 0 && threadIdx.y == 0;
    if (first) largest = 0;
    __syncthreads();
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {  // guard
        int i = y * n + x;
        float value = 0.25f * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - f[i]);
        next[i] = value;
        atomicMax(&largest, __float_as_uint(fabsf(value - u[i])));
    }
    __syncthreads();
    if (first) atomicMax(change, largest);
}
""",
    data=lambda rng: (
        lambda u: {
            "u": u,
            "f": whole(rng, -8, 8, 35, 35),
            "next": u.copy(),
            "change": np.zeros(1, np.uint32),
            "n": i32(35),
        }
    )(whole(rng, 0, 99, 35, 35)),
    launch=Launch("jacobi", (3, 5), (16, 8), "u f next change n"),
    expect=lambda d: jacobi(d["u"], d["f"]),
    features="shared",
)


def jacobi(u, f):
    after = five_point(u)
    after[1:-1, 1:-1] -= f[1:-1, 1:-1] / 4
    return {"next": after, "change": abs(after - u).max()[None].view(np.uint32)}


kernel(
    "gauss_seidel_red_black",
    "In place without a race: red points read only black ones, and the other way round.",
    r"""
extern "C" __global__ void relax_colour(double* u, int n, int colour, double omega) {
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + (y + colour) % 2;
    if (x < n - 1 && y < n - 1) {  // guard
        double* p = u + y * n + x;
        *p += omega * (0.25 * (p[-1] + p[1] + p[-n] + p[n]) - *p);
    }
}
""",
    data=lambda rng: {"u": rng.random((33, 33)), "n": i32(33), "omega": f64(1.5)},
    launch=lambda d: [Launch("relax_colour", (3, 5), (8, 8), ("u", "n", i32(k % 2), "omega")) for k in range(6)],
    expect=lambda d: {"u": red_black(d["u"].copy())},
    rounding=Near(1e-12, 1e-13, "fused multiply-add"),
    features="multi_launch",
)


def red_black(u):
    y, x = np.mgrid[0:33, 0:33]
    inner = (x > 0) & (y > 0) & (x < 32) & (y < 32)
    for k in range(6):
        mean = (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)) / 4
        chosen = inner & ((x + y) % 2 == (1 + k) % 2)
        u = np.where(chosen, u + 1.5 * (mean - u), u)
    return u


kernel(
    "lattice_boltzmann_d2q9",
    "Nine populations a cell: pull them from the neighbours, relax toward equilibrium, periodic edges.",
    r"""
__constant__ int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ double weight[9] = {4. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 36, 1. / 36, 1. / 36, 1. / 36};
extern "C" __global__ void collide_and_stream(const double* in, double* out, int nx, int ny, double relaxation) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;  // guard
    double f[9], density = 0, ux = 0, uy = 0;
    for (int q = 0; q < 9; q++) {
        int from = ((y - cy[q] + ny) % ny) * nx + (x - cx[q] + nx) % nx;
        f[q] = in[q * nx * ny + from];
        density += f[q];
        ux += cx[q] * f[q];
        uy += cy[q] * f[q];
    }
    ux /= density;
    uy /= density;
    for (int q = 0; q < 9; q++) {
        double along = 3 * (cx[q] * ux + cy[q] * uy);
        double rest = weight[q] * density * (1 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy));
        out[q * nx * ny + y * nx + x] = f[q] + relaxation * (rest - f[q]);
    }
}
""",
    data=lambda rng: {
        "in": rng.uniform(0.8, 1.2, (9, 13, 19)),
        "out": Blank((9, 13, 19), f64),
        "nx": i32(19),
        "ny": i32(13),
        "relaxation": f64(0.7),
    },
    launch=Launch("collide_and_stream", (3, 4), (8, 4), "in out nx ny relaxation"),
    expect=lambda d: {"out": boltzmann(d["in"])},
    rounding=Near(1e-12, 1e-13, "sums in another order, fused multiply-add"),
    features="constant",
)


def boltzmann(f):
    cx, cy = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1]), np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    f = np.stack([np.roll(f[q], (cy[q], cx[q]), (0, 1)) for q in range(9)])
    density = f.sum(0)
    ux, uy = np.tensordot(cx, f, 1) / density, np.tensordot(cy, f, 1) / density
    along = 3 * (cx[:, None, None] * ux + cy[:, None, None] * uy)
    rest = w[:, None, None] * density * (1 + along + along**2 / 2 - 1.5 * (ux**2 + uy**2))
    return f + 0.7 * (rest - f)


kernel(
    "advection_upwind",
    "The side to look at depends on the sign of the velocity: upwind differences on a ring.",
    r"""
extern "C" __global__ void upwind(const float* u, const float* velocity, float* out, float ratio, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float v = velocity[i];
    float slope = v > 0 ? u[i] - u[i == 0 ? n - 1 : i - 1] : u[i == n - 1 ? 0 : i + 1] - u[i];
    out[i] = u[i] - ratio * v * slope;
}
""",
    data=lambda rng: {
        "u": whole(rng, -99, 99, 333),
        "velocity": whole(rng, -4, 5, 333),
        "out": Blank(333, f32),
        "ratio": f32(0.125),
        "n": i32(333),
    },
    launch=Launch("upwind", 3, 128, "u velocity out ratio n"),
    expect=lambda d: {
        "out": d["u"]
        - d["velocity"] / 8 * np.where(d["velocity"] > 0, d["u"] - np.roll(d["u"], 1), np.roll(d["u"], -1) - d["u"])
    },
)

kernel(
    "stencil_1d_shared_radius",
    "The classic one-dimensional stencil of radius three: a block's piece with halo in shared memory.",
    r"""
#define RADIUS 3
#define SIZE 64
extern "C" __global__ void stencil_1d(const int* in, int* out, int n) {
    __shared__ int piece[SIZE + 2 * RADIUS];
    int global = blockIdx.x * SIZE + threadIdx.x;
    int local = threadIdx.x + RADIUS;
    piece[local] = (global < n) ? in[global] : 0;  // guard
    if (threadIdx.x < RADIUS) {
        int left = global - RADIUS, right = global + SIZE;
        piece[local - RADIUS] = (left >= 0) ? in[left] : 0;  // guard
        piece[local + SIZE] = (right < n) ? in[right] : 0;  // guard
    }
    __syncthreads();
    int sum = 0;
    for (int offset = -RADIUS; offset <= RADIUS; offset++) sum += piece[local + offset];
    if (global < n) out[global] = sum;  // guard
}
""",
    data=lambda rng: {"in": rng.integers(-99, 99, 411, dtype=i32), "out": Blank(411, i32), "n": i32(411)},
    launch=Launch("stencil_1d", 7, 64, "in out n"),
    expect=lambda d: {"out": np.convolve(d["in"], np.ones(7, i32), "same")},
    features="shared",
)

kernel(
    "thomas_tridiagonal_batch",
    "Implicit steps need tridiagonal solves: a thread a system, systems interleaved so that reads are neighbours.",
    r"""
extern "C" __global__ void thomas(const double* lower, const double* diagonal, const double* upper, double* x,
                                  double* scratch, int n, int systems) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;  // guard
    double pivot = diagonal[s];
    scratch[s] = upper[s] / pivot;
    x[s] /= pivot;
    for (int i = 1; i < n; i++) {
        int at = i * systems + s, above = at - systems;
        pivot = diagonal[at] - lower[at] * scratch[above];
        scratch[at] = upper[at] / pivot;
        x[at] = (x[at] - lower[at] * x[above]) / pivot;
    }
    for (int i = n - 2; i >= 0; i--) x[i * systems + s] -= scratch[i * systems + s] * x[(i + 1) * systems + s];
}
""",
    data=lambda rng: {
        "lower": rng.random((20, 45)),
        "diagonal": 3 + rng.random((20, 45)),
        "upper": rng.random((20, 45)),
        "x": rng.random((20, 45)),
        "scratch": Scratch(np.zeros((20, 45))),
        "n": i32(20),
        "systems": i32(45),
    },
    launch=Launch("thomas", 2, 32, "lower diagonal upper x scratch n systems"),
    expect=lambda d: {"x": tridiagonal(d["lower"], d["diagonal"], d["upper"], d["x"])},
    rounding=Near(1e-12, 1e-13, "another elimination"),
)


def tridiagonal(lower, diagonal, upper, right):
    out = np.empty_like(right)
    for s in range(right.shape[1]):
        matrix = np.diag(diagonal[:, s]) + np.diag(lower[1:, s], -1) + np.diag(upper[:-1, s], 1)
        out[:, s] = np.linalg.solve(matrix, right[:, s])
    return out


kernel(
    "temporal_blocking_1d",
    "Four time steps in one launch: each block computes a halo that shrinks by one a step.",
    r"""
#define STEPS 4
extern "C" __global__ void four_steps(const float* in, float* out, int n) {
    __shared__ float line[2][128];
    int useful = blockDim.x - 2 * STEPS;
    int i = blockIdx.x * useful + (int)threadIdx.x - STEPS, t = threadIdx.x;
    line[0][t] = in[(i % n + n) % n];
    __syncthreads();
    for (int step = 0; step < STEPS; step++) {
        if (t > step && t < blockDim.x - 1 - step)  // guard
            line[1 - step % 2][t] = 0.5f * (line[step % 2][t - 1] + line[step % 2][t + 1]);
        __syncthreads();
    }
    if (t >= STEPS && t < STEPS + useful && i < n) out[i] = line[STEPS % 2][t];  // guard
}
""",
    data=lambda rng: {"in": whole(rng, 0, 1000, 500), "out": Blank(500, f32), "n": i32(500)},
    launch=Launch("four_steps", blocks(500, 120), 128, "in out n"),
    expect=lambda d: {"out": halves(d["in"], 4)},
    features="shared",
)


def halves(u, steps):
    for _ in range(steps):
        u = (np.roll(u, 1) + np.roll(u, -1)) / 2
    return u


kernel(
    "gray_scott_reaction",
    "Two substances that react and spread: interleaved float2 cells, periodic in both directions.",
    r"""
__constant__ float feed, kill;
extern "C" __global__ void gray_scott(const float2* __restrict__ in, float2* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;  // guard
    const int w = (x + nx - 1) % nx, e = (x + 1) % nx, n = (y + ny - 1) % ny, s = (y + 1) % ny;
    const float2 c = in[y * nx + x];
    const float2 W = in[y * nx + w], E = in[y * nx + e], N = in[n * nx + x], S = in[s * nx + x];
    const float lu = W.x + E.x + N.x + S.x - 4 * c.x, lv = W.y + E.y + N.y + S.y - 4 * c.y;
    const float reaction = c.x * c.y * c.y;
    out[y * nx + x] = make_float2(c.x + 0.2f * lu - reaction + feed * (1 - c.x),
                                  c.y + 0.1f * lv + reaction - (feed + kill) * c.y);
}
""",
    data=lambda rng: {
        "in": rng.random((21, 27, 2), dtype=f32),
        "out": Blank((21, 27, 2), f32),
        "nx": i32(27),
        "ny": i32(21),
        "feed": Global(np.array([0.04], f32)),
        "kill": Global(np.array([0.06], f32)),
    },
    launch=Launch("gray_scott", (4, 6), (8, 4), "in out nx ny"),
    expect=lambda d: {"out": gray_scott(d["in"].astype(float)).astype(f32)},
    rounding=Near(1e-5, 1e-6, "float32 instead of double"),
    features="constant vectors",
)


def gray_scott(c):
    spread = sum(np.roll(c, k, axis) for k in (1, -1) for axis in (0, 1)) - 4 * c
    u, v = c[..., 0], c[..., 1]
    reaction = u * v * v
    return np.stack(
        [u + 0.2 * spread[..., 0] - reaction + 0.04 * (1 - u), v + 0.1 * spread[..., 1] + reaction - 0.1 * v], -1
    )
