"""Factorisations, triangular and sparse systems, eigenvalues."""

from math import fsum

from ..kernel import Blank, Launch, Near, Scratch, blocks, f32, f64, i32, kernel, normal, np, whole

ORDER = Near(1e-5, 1e-5, "sums in another order, fused multiply-add")
ORDER64 = Near(1e-12, 1e-12, "sums in another order, fused multiply-add")
M, N, K = 45, 37, 51

kernel(
    "lu_elimination_steps",
    "Gaussian elimination: for each column a kernel makes the factors and another updates what is left.",
    r"""
extern "C" __global__ void lu_factors(double* a, int n, int step) {
    int row = step + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) a[row * n + step] /= a[step * n + step];  // guard
}
extern "C" __global__ void lu_update(double* a, int n, int step) {
    int row = step + 1 + blockIdx.y * blockDim.y + threadIdx.y;
    int column = step + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && column < n) a[row * n + column] -= a[row * n + step] * a[step * n + column];  // guard
}
""",
    data=lambda rng: {"a": rng.standard_normal((11, 11)) + 6 * np.eye(11), "n": i32(11)},
    launch=lambda d: [
        launch
        for step in range(10)
        for launch in (
            Launch("lu_factors", 2, 8, ("a", "n", i32(step))),
            Launch("lu_update", (2, 2), (8, 8), ("a", "n", i32(step))),
        )
    ],
    expect=lambda d: {"a": lu(d["a"].copy())},
    rounding=ORDER64,
    features="multi_launch",
)


def lu(a):
    """Both factors in one matrix."""
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


kernel(
    "cholesky_one_block",
    "A small Cholesky factor in the shared memory of one block: three phases a column, a barrier between.",
    r"""
extern "C" __global__ void cholesky(const float* in, float* out, int n) {
    extern __shared__ float l[];
    int row = threadIdx.x;
    if (row < n)  // guard
        for (int j = 0; j < n; j++) l[row * n + j] = in[row * n + j];
    for (int k = 0; k < n; k++) {
        if (row == k) l[k * n + k] = sqrtf(l[k * n + k]);  // of its own row, as all before was
        __syncthreads();
        if (row > k && row < n) l[row * n + k] /= l[k * n + k];  // guard
        __syncthreads();
        if (row > k && row < n)  // guard
            for (int j = k + 1; j <= row; j++) l[row * n + j] -= l[row * n + k] * l[j * n + k];
    }
    if (row < n)  // guard
        for (int j = 0; j < n; j++) out[row * n + j] = j <= row ? l[row * n + j] : 0;
}
""",
    data=lambda rng: {"in": definite(rng, 19), "out": Blank((19, 19), f32), "n": i32(19)},
    launch=Launch("cholesky", 1, 32, "in out n", shared=19 * 19 * 4),
    expect=lambda d: {"out": np.linalg.cholesky(d["in"].astype(f64)).astype(f32)},
    rounding=Near(1e-4, 1e-5, "float32 instead of double"),
    features="dynamic_shared",
)


def definite(rng, n):
    """Symmetric, positive definite."""
    a = whole(rng, -3, 4, n, n)
    return a @ a.T + 20 * np.eye(n, dtype=f32)


kernel(
    "triangular_solve_columns",
    "Forward substitution: a block a right-hand side; each solved unknown is taken out of the rows below.",
    r"""
extern "C" __global__ void solve_lower(const double* l, double* b, int n) {
    double* x = b + blockIdx.x * n;
    for (int k = 0; k < n; k++) {
        if (threadIdx.x == 0) x[k] = x[k] / l[k * n + k];
        __syncthreads();
        double known = x[k];
        for (int row = k + 1 + threadIdx.x; row < n; row += blockDim.x) x[row] -= l[row * n + k] * known;
    }  // row k + 1 was thread 0's, which goes on with it
}
""",
    data=lambda rng: {
        "l": np.tril(rng.standard_normal((27, 27))) + 5 * np.eye(27),
        "b": rng.standard_normal((4, 27)),
        "n": i32(27),
    },
    launch=Launch("solve_lower", 4, 16, "l b n"),
    expect=lambda d: {"b": np.linalg.solve(d["l"], d["b"].T).T},
    rounding=ORDER64,
)

kernel(
    "gram_schmidt_step",
    "One vector is made orthogonal to the ones before: a dot product in the block, then a subtraction, each in turn.",
    r"""
extern "C" __global__ void gram_schmidt(float* q, int n, int which) {
    __shared__ float partial[64];
    float* v = q + which * n;
    int t = threadIdx.x;
    for (int other = 0; other <= which; other++) {
        const float* u = q + other * n;
        float dot = 0;
        for (int i = t; i < n; i += blockDim.x) dot += u[i] * v[i];
        partial[t] = dot;
        __syncthreads();
        for (int half = 32; half; half >>= 1) {
            if (t < half) partial[t] += partial[t + half];
            __syncthreads();
        }
        float total = partial[0];
        for (int i = t; i < n; i += blockDim.x)
            v[i] = other == which ? v[i] / sqrtf(total) : v[i] - total * u[i];
        __syncthreads();
    }
}
""",
    data=lambda rng: {"q": normal(rng, 5, 70), "n": i32(70)},
    launch=lambda d: [Launch("gram_schmidt", 1, 64, ("q", "n", i32(k))) for k in range(5)],
    expect=lambda d: {"q": orthonormal(d["q"].astype(f64)).astype(f32)},
    rounding=Near(1e-4, 1e-5, "float32 instead of double"),
    features="shared multi_launch",
)


def orthonormal(rows):
    """Rows of Q by Householder's QR, signs so that each row looks where it came from."""
    q, r = np.linalg.qr(rows.T)
    return (q * np.sign(np.diag(r))).T


def sparse(rng, rows, columns):
    """A matrix with about a quarter of its places filled with whole numbers, one row empty."""
    full = rng.integers(-9, 10, (rows, columns)) * (rng.random((rows, columns)) < 0.25)
    full[rows // 2] = 0
    return full


def csr(full, dtype=f32):
    """Row starts, columns, values."""
    rows, columns = np.nonzero(full)
    starts = np.concatenate([[0], np.bincount(rows, minlength=len(full)).cumsum()]).astype(i32)
    return {"starts": starts, "columns": columns.astype(i32), "values": full[rows, columns].astype(dtype)}


kernel(
    "spmv_csr_scalar",
    "Sparse rows of different length: a thread a row.",
    r"""
extern "C" __global__ void spmv_csr(const int* starts, const int* columns, const float* values, const float* x,
        float* y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;  // guard
    float sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; k++) sum += values[k] * x[columns[k]];
    y[row] = sum;
}
""",
    data=lambda rng: {
        **csr(sparse(rng, 83, 60)),
        "x": whole(rng, -9, 9, 60),
        "y": Blank(83, f32),
        "rows": i32(83),
    },
    launch=Launch("spmv_csr", 3, 32, "starts columns values x y rows"),
    expect=lambda d: {"y": by_rows(d)},
)


def by_rows(d):
    products = d["values"] * d["x"][d["columns"]]
    return np.array([products[a:b].sum() for a, b in zip(d["starts"], d["starts"][1:], strict=False)], f32)


kernel(
    "spmv_csr_vector",
    "Half a warp a row: sixteen lanes of a tile share a row and add by xor shuffles.",
    r"""
extern "C" __global__ void spmv_half_warp(const int* __restrict__ starts, const int* __restrict__ columns,
                                          const double* __restrict__ values, const double* __restrict__ x,
                                              double* y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 4;
    int lane = threadIdx.x & 15;
    double sum = 0;
    if (row < rows)  // guard
        for (int k = starts[row] + lane; k < starts[row + 1]; k += 16) sum += values[k] * x[columns[k]];
    for (int mask = 8; mask; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask, 16);
    if (row < rows && lane == 0) y[row] = sum;  // guard
}
""",
    data=lambda rng: {
        **csr(sparse(rng, 45, 90), f64),
        "x": whole(rng, -9, 9, 90, dtype=f64),
        "y": Blank(45, f64),
        "rows": i32(45),
    },
    launch=Launch("spmv_half_warp", 6, 128, "starts columns values x y rows"),
    expect=lambda d: {"y": by_rows(d).astype(f64)},
    features="shuffles",
)

kernel(
    "spmv_ellpack",
    "Rows padded to one length and stored by columns, so that a warp's reads are neighbours.",
    r"""
extern "C" __global__ void spmv_ell(const int* columns, const float* values, const float* x, float* y, int rows,
        int width) {
    int row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row < rows) {  // guard
        float sum = 0;
        for (int k = 0; k < width; k++) {
            int column = columns[k * rows + row];
            if (column < 0) break;
            sum += values[k * rows + row] * x[column];
        }
        y[row] = sum;
    }
}
""",
    data=lambda rng: {**ell(sparse(rng, 50, 40)), "x": whole(rng, -9, 9, 40), "y": Blank(50, f32), "rows": i32(50)},
    launch=Launch("spmv_ell", 2, 32, "columns values x y rows width"),
    expect=lambda d: {"y": (d["values"] * np.where(d["columns"] < 0, 0, d["x"][d["columns"]])).sum(0, dtype=f32)},
)


def ell(full):
    """Columns and values, one row of the arrays for each place in a row; -1 ends a row."""
    width = int((full != 0).sum(1).max())
    columns = np.full((width, len(full)), -1, i32)
    values = np.zeros((width, len(full)), f32)
    for row, line in enumerate(full):
        at = np.nonzero(line)[0]
        columns[: len(at), row] = at
        values[: len(at), row] = line[at]
    return {"columns": columns, "values": values, "width": i32(width)}


kernel(
    "spmv_coo_atomic",
    "Coordinates in any order: a thread a value, collected by atomics.",
    r"""
struct Triplet { int row, column; float value; };
extern "C" __global__ void spmv_coo(const Triplet* entries, const float* x, float* y, int count) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) {  // guard
        Triplet t = entries[k];
        atomicAdd(&y[t.row], t.value * x[t.column]);
    }
}
""",
    data=lambda rng: {
        **triplets(rng, sparse(rng, 40, 33)),
        "x": whole(rng, -9, 9, 33),
        "y": np.zeros(40, f32),
    },
    launch=lambda d: [Launch("spmv_coo", blocks(len(d["entries"]), 128), 128, "entries x y count")],
    expect=lambda d: {
        "y": np.bincount(
            d["entries"]["row"], d["entries"]["value"] * d["x"][d["entries"]["column"]], minlength=40
        ).astype(f32)
    },
    features="structs",
)


def triplets(rng, full):
    rows, columns = np.nonzero(full)
    entries = np.empty(len(rows), [("row", i32), ("column", i32), ("value", f32)])
    entries["row"], entries["column"], entries["value"] = rows, columns, full[rows, columns]
    rng.shuffle(entries)
    return {"entries": entries, "count": i32(len(rows))}


kernel(
    "conjugate_gradient",
    "Five small kernels, scalars that never leave the device: six iterations of conjugate gradients.",
    r"""
extern "C" __global__ void cg_matvec(const double* p, double* q, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    q[i] = 3 * p[i] - (i > 0 ? p[i - 1] : 0) - (i < n - 1 ? p[i + 1] : 0);
}
extern "C" __global__ void cg_dot(const double* u, const double* v, double* out, int n) {
    __shared__ double part[128];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += 128) sum += u[i] * v[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = part[0];
}
extern "C" __global__ void cg_step(double* x, double* r, const double* p, const double* q, const double* rr,
        const double* pq, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    double alpha = *rr / *pq;
    x[i] += alpha * p[i];
    r[i] -= alpha * q[i];
}
extern "C" __global__ void cg_direction(double* p, const double* r, const double* fresh, const double* stale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = r[i] + *fresh / *stale * p[i];  // guard
}
""",
    data=lambda rng: cg_data(rng.standard_normal(150)),
    launch=lambda d: [
        launch
        for k in range(6)
        for launch in (
            Launch("cg_matvec", 3, 64, "p q n"),
            Launch("cg_dot", 1, 128, "p q pq n"),
            Launch("cg_step", 3, 64, ("x", "r", "p", "q", f"rr{k % 2}", "pq", "n")),
            Launch("cg_dot", 1, 128, ("r", "r", f"rr{1 - k % 2}", "n")),
            Launch("cg_direction", 3, 64, ("p", "r", f"rr{1 - k % 2}", f"rr{k % 2}", "n")),
        )
    ],
    expect=lambda d: {"x": cg(d["r"].value, 6)},
    rounding=Near(1e-11, 1e-12, "sums in another order, fused multiply-add"),
    features="shared multi_launch",
)


def cg_data(b):
    n = len(b)
    return {
        "x": np.zeros(n),
        "r": Scratch(b),
        "p": Scratch(b),
        "q": Scratch(np.zeros(n)),
        "pq": Scratch(np.zeros(1)),
        "rr0": Scratch(np.array([fsum(b * b)])),
        "rr1": Scratch(np.zeros(1)),
        "n": i32(n),
    }


def cg(b, iterations):
    """Textbook conjugate gradients for the tridiagonal matrix (-1, 3, -1)."""
    a = 3 * np.eye(len(b)) - np.eye(len(b), k=1) - np.eye(len(b), k=-1)
    x, r = np.zeros(len(b)), b.copy()
    p = r.copy()
    for _ in range(iterations):
        alpha = (r @ r) / (p @ a @ p)
        x += alpha * p
        fresh = r - alpha * (a @ p)
        p = fresh + (fresh @ fresh) / (r @ r) * p
        r = fresh
    return x


kernel(
    "power_iteration_warp",
    "One warp finds the largest eigenvalue of a small matrix: lane i holds element i, shuffles do the rest.",
    r"""
extern "C" __global__ void power_iteration(const double* a, double* vector, double* value, int n, int rounds) {
    int lane = threadIdx.x;
    double x = lane < n ? 1.0 : 0.0, norm = 0;
    for (int round = 0; round < rounds; round++) {
        double y = 0;
        for (int j = 0; j < n; j++) {
            double xj = __shfl_sync(0xffffffffu, x, j);
            if (lane < n) y += a[lane * n + j] * xj;  // guard
        }
        double square = y * y;
        for (int o = 16; o; o /= 2) square += __shfl_xor_sync(0xffffffffu, square, o);
        norm = sqrt(square);
        x = y / norm;
    }
    if (lane < n) vector[lane] = x;  // guard
    if (lane == 0) *value = norm;
}
""",
    data=lambda rng: {
        "a": (lambda m: m @ m.T)(whole(rng, 0, 9, 21, 21, dtype=f64)),
        "vector": Blank(21, f64),
        "value": Blank(1, f64),
        "n": i32(21),
        "rounds": i32(25),
    },
    launch=Launch("power_iteration", 1, 32, "a vector value n rounds"),
    expect=lambda d: (lambda w, v: {"vector": abs(v[:, -1]), "value": w[-1:]})(*np.linalg.eigh(d["a"])),
    rounding=Near(1e-11, 1e-12, "sums in another order"),
    features="shuffles",
)

kernel(
    "qr_givens_rotations",
    "Givens rotations on a batch: a thread a matrix, kept in local memory with dynamic indices.",
    r"""
extern "C" __global__ void givens(const double* in, double* out, int batch) {
    int which = blockIdx.x * blockDim.x + threadIdx.x;
    if (which >= batch) return;  // guard
    double a[4][4];
    for (int i = 0; i < 16; i++) a[i / 4][i % 4] = in[which * 16 + i];
    for (int column = 0; column < 3; column++)
        for (int row = 3; row > column; row--) {
            double x = a[row - 1][column], y = a[row][column], r = hypot(x, y);
            double c = x / r, s = y / r;
            for (int k = column; k < 4; k++) {
                double above = a[row - 1][k], below = a[row][k];
                a[row - 1][k] = c * above + s * below;
                a[row][k] = c * below - s * above;
            }
        }
    for (int i = 0; i < 16; i++) out[which * 16 + i] = i / 4 > i % 4 ? 0 : fabs(a[i / 4][i % 4]);
}
""",
    data=lambda rng: {"in": rng.standard_normal((37, 4, 4)), "out": Blank((37, 4, 4), f64), "batch": i32(37)},
    launch=Launch("givens", 2, 32, "in out batch"),
    expect=lambda d: {"out": abs(np.linalg.qr(d["in"])[1])},
    rounding=Near(1e-11, 1e-12, "another order of rotations"),
    features="local_memory",
)
