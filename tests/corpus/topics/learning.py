"""Machine learning: layers forward, losses, normalisation, quantisation, neighbours."""

from ..kernel import Blank, Launch, Near, Scratch, f32, f64, i8, i32, kernel, normal, np, whole

kernel(
    "softmax_rows",
    "A block a row: maximum, sum of exponentials, quotient; subtracting the maximum keeps all in range.",
    r"""
__device__ float block_reduce(float v, bool maximum) {
    __shared__ float of_warp[4], result;
    for (int o = 16; o > 0; o >>= 1) {
        float w = __shfl_xor_sync(0xffffffff, v, o);
        v = maximum ? fmaxf(v, w) : v + w;
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        v = of_warp[0];
        for (int k = 1; k < blockDim.x / 32; k++) v = maximum ? fmaxf(v, of_warp[k]) : v + of_warp[k];
        result = v;
    }
    __syncthreads();
    return result;  // the next call writes it behind a barrier of its own
}
extern "C" __global__ void softmax(const float* logits, float* probability, int columns) {
    const float* row = logits + blockIdx.x * columns;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) most = fmaxf(most, row[c]);
    most = block_reduce(most, true);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c] - most);
    sum = block_reduce(sum, false);
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        probability[blockIdx.x * columns + c] = expf(row[c] - most) / sum;
}
""",
    data=lambda rng: {"logits": 5 * normal(rng, 9, 77), "probability": Blank((9, 77), f32), "columns": i32(77)},
    launch=Launch("softmax", 9, 64, "logits probability columns"),
    expect=lambda d: {"probability": softmax(d["logits"].astype(f64)).astype(f32)},
    tolerance=Near(2e-6, 1e-9, "approximate functions: expf"),
    features="shared shuffles",
)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


kernel(
    "softmax_online_warp",
    "One pass: maximum and sum are corrected together, pairs merge by shuffles. A warp a row.",
    r"""
extern "C" __global__ void online_softmax(const float* in, float* out, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // guard
    float m = -1e30f, s = 0;
    for (int c = threadIdx.x; c < columns; c += 32) {
        float x = in[row * columns + c], fresh = fmaxf(m, x);
        s = s * exp2f((m - fresh) * 1.4426950f) + exp2f((x - fresh) * 1.4426950f);
        m = fresh;
    }
    for (int o = 1; o < 32; o <<= 1) {
        float other_m = __shfl_xor_sync(~0u, m, o), other_s = __shfl_xor_sync(~0u, s, o);
        float fresh = fmaxf(m, other_m);
        s = s * exp2f((m - fresh) * 1.4426950f) + other_s * exp2f((other_m - fresh) * 1.4426950f);
        m = fresh;
    }
    float scale = __frcp_rn(s);
    for (int c = threadIdx.x; c < columns; c += 32)
        out[row * columns + c] = exp2f((in[row * columns + c] - m) * 1.4426950f) * scale;
}
""",
    data=lambda rng: {"in": 3 * normal(rng, 10, 45), "out": Blank((10, 45), f32), "rows": i32(10), "columns": i32(45)},
    launch=Launch("online_softmax", 3, (32, 4), "in out rows columns"),
    expect=lambda d: {"out": softmax(d["in"].astype(f64)).astype(f32)},
    tolerance=Near(5e-6, 1e-9, "approximate functions: exp2f"),
    features="shuffles",
)

kernel(
    "layer_norm",
    "Mean and variance of each row in one pass of sums, then scale and shift.",
    r"""
extern "C" __global__ void layer_norm(const float* __restrict__ x, const float* __restrict__ gain,
        const float* __restrict__ bias,
                                      float* __restrict__ y, int width, float epsilon) {
    __shared__ float2 sums[64];
    const float* row = x + blockIdx.x * width;
    float2 mine = {0.f, 0.f};
    for (int i = threadIdx.x; i < width; i += 64) {
        mine.x += row[i];
        mine.y += row[i] * row[i];
    }
    sums[threadIdx.x] = mine;
    __syncthreads();
    #pragma unroll
    for (int half = 32; half; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x].x += sums[threadIdx.x + half].x;
            sums[threadIdx.x].y += sums[threadIdx.x + half].y;
        }
        __syncthreads();
    }
    float mean = sums[0].x / width;
    float scale = rsqrtf(sums[0].y / width - mean * mean + epsilon);
    for (int i = threadIdx.x; i < width; i += 64)
        y[blockIdx.x * width + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}
""",
    data=lambda rng: {
        "x": normal(rng, 8, 100),
        "gain": normal(rng, 100),
        "bias": normal(rng, 100),
        "y": Blank((8, 100), f32),
        "width": i32(100),
        "epsilon": f32(1e-5),
    },
    launch=Launch("layer_norm", 8, 64, "x gain bias y width epsilon"),
    expect=lambda d: {
        "y": (
            (d["x"] - d["x"].mean(1, keepdims=True, dtype=f64))
            / np.sqrt(d["x"].astype(f64).var(1, keepdims=True) + 1e-5)
            * d["gain"]
            + d["bias"]
        ).astype(f32)
    },
    tolerance=Near(1e-5, 1e-5, "approximate functions: rsqrtf"),
    features="shared vectors",
)

kernel(
    "attention_one_query",
    "A block a query: scores, softmax over keys, weighted sum of values, all in dynamic shared memory.",
    r"""
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int keys,
        int width, float scale) {
    extern __shared__ float shared[];
    float* query = shared;
    float* score = shared + width;
    __shared__ float total;
    int t = threadIdx.x;
    for (int i = t; i < width; i += blockDim.x) query[i] = q[blockIdx.x * width + i] * scale;
    __syncthreads();
    for (int j = t; j < keys; j += blockDim.x) {
        float dot = 0;
        for (int i = 0; i < width; i++) dot += query[i] * k[j * width + i];
        score[j] = j <= blockIdx.x ? __expf(dot) : 0;
    }
    __syncthreads();
    if (t == 0) {
        float sum = 0;
        for (int j = 0; j < keys; j++) sum += score[j];
        total = sum;
    }
    __syncthreads();
    for (int i = t; i < width; i += blockDim.x) {
        float sum = 0;
        for (int j = 0; j < keys; j++) sum += score[j] * v[j * width + i];
        out[blockIdx.x * width + i] = sum / total;
    }
}
""",
    data=lambda rng: {
        "q": normal(rng, 20, 24),
        "k": normal(rng, 20, 24),
        "v": normal(rng, 20, 24),
        "out": Blank((20, 24), f32),
        "keys": i32(20),
        "width": i32(24),
        "scale": f32(24**-0.5),
    },
    launch=Launch("attention", 20, 32, "q k v out keys width scale", shared=44 * 4),
    expect=lambda d: {"out": attended(*(d[n].astype(f64) for n in "qkv")).astype(f32)},
    tolerance=Near(1e-5, 1e-5, "approximate functions: __expf"),
    features="dynamic_shared",
)


def attended(q, k, v):
    scores = q @ k.T / np.sqrt(24)
    return softmax(np.where(np.tri(20, dtype=bool), scores, -np.inf)) @ v


kernel(
    "activations_switch",
    "One kernel, several activations: a branch that is the same for all threads costs little.",
    r"""
enum Kind { RELU, LEAKY, GELU, SIGMOID };
extern "C" __global__ void activate(const float* in, float* out, int n, int kind) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float x = in[i];
    switch (kind) {
        case RELU: x = fmaxf(x, 0.f); break;
        case LEAKY: x = x > 0 ? x : 0.01f * x; break;
        case GELU: x = 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x))); break;
        default: x = 1 / (1 + expf(-x));
    }
    out[i] = x;
}
""",
    data=lambda rng: {"in": 2 * normal(rng, 200), **{f"o{k}": Blank(200, f32) for k in range(4)}, "n": i32(200)},
    launch=lambda d: [Launch("activate", 2, 128, ("in", f"o{k}", "n", i32(k))) for k in range(4)],
    expect=lambda d: (
        lambda x: {
            "o0": np.maximum(x, 0).astype(f32),
            "o1": np.where(x > 0, x, 0.01 * x).astype(f32),
            "o2": (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(f32),
            "o3": (1 / (1 + np.exp(-x))).astype(f32),
        }
    )(d["in"].astype(f64)),
    tolerance=Near(1e-5, 1e-6, "approximate functions: tanhf, expf"),
    features="multi_launch switch",
)

kernel(
    "conv2d_im2col",
    "A convolution as a product: patches become columns in one kernel, a second one multiplies.",
    r"""
extern "C" __global__ void im2col(const float* image, float* columns, int channels, int h, int w, int k) {
    int oh = h - k + 1, ow = w - k + 1;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= channels * k * k * oh * ow) return;  // guard
    int x = i % ow, y = i / ow % oh, tap = i / (oh * ow);
    int dx = tap % k, dy = tap / k % k, c = tap / (k * k);
    columns[i] = image[(c * h + y + dy) * w + x + dx];
}
extern "C" __global__ void filter_bank(const float* filters, const float* columns, float* out, int taps, int places) {
    int place = blockIdx.x * blockDim.x + threadIdx.x, f = blockIdx.y;
    if (place >= places) return;  // guard
    float sum = 0;
    #pragma unroll 4
    for (int t = 0; t < taps; t++) sum += filters[f * taps + t] * columns[t * places + place];
    out[f * places + place] = sum;
}
""",
    data=lambda rng: {
        "image": whole(rng, -4, 5, 3, 12, 14),
        "columns": Scratch(np.zeros((27, 120), f32)),
        "filters": whole(rng, -4, 5, 5, 27),
        "out": Blank((5, 10, 12), f32),
    },
    launch=[
        Launch("im2col", 26, 128, ("image", "columns", i32(3), i32(12), i32(14), i32(3))),
        Launch("filter_bank", (2, 5), 64, ("filters", "columns", "out", i32(27), i32(120))),
    ],
    expect=lambda d: {
        "out": np.einsum(
            "cyxij,fcij->fyx",
            np.lib.stride_tricks.sliding_window_view(d["image"], (3, 3), (1, 2)),
            d["filters"].reshape(5, 3, 3, 3),
        )
    },
    features="multi_launch",
)

kernel(
    "conv2d_direct_shared_filter",
    "A direct convolution with padding: the filters of one output channel wait in shared memory.",
    r"""
extern "C" __global__ void conv2d(const double* in, const double* filters, double* out, int channels, int h, int w) {
    extern __shared__ double taps[];
    int f = blockIdx.z, linear = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = linear; i < channels * 9; i += blockDim.x * blockDim.y) taps[i] = filters[f * channels * 9 + i];
    __syncthreads();
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;  // guard
    double sum = 0;
    for (int c = 0; c < channels; c++)
        for (int dy = -1; dy <= 1; dy++) {
            if (y + dy < 0 || y + dy >= h) continue;  // guard
            for (int dx = -1; dx <= 1; dx++) {
                if (x + dx < 0 || x + dx >= w) continue;  // guard
                sum += taps[c * 9 + (dy + 1) * 3 + dx + 1] * in[(c * h + y + dy) * w + x + dx];
            }
        }
    out[(f * h + y) * w + x] = sum;
}
""",
    data=lambda rng: {
        "in": whole(rng, -9, 9, 2, 11, 13, dtype=f64),
        "filters": whole(rng, -9, 9, 3, 2, 3, 3, dtype=f64),
        "out": Blank((3, 11, 13), f64),
        "channels": i32(2),
        "h": i32(11),
        "w": i32(13),
    },
    launch=Launch("conv2d", (2, 3, 3), (8, 4), "in filters out channels h w", shared=2 * 9 * 8),
    expect=lambda d: {
        "out": np.einsum(
            "cyxij,fcij->fyx",
            np.lib.stride_tricks.sliding_window_view(np.pad(d["in"], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2)),
            d["filters"],
        )
    },
    features="dynamic_shared",
)

kernel(
    "max_pool_with_index",
    "Two by two, odd edges kept: the place of the maximum is needed on the way back.",
    r"""
extern "C" __global__ void max_pool(const float* in, float* out, unsigned char* where, int h, int w) {
    int ox = blockIdx.x * blockDim.x + threadIdx.x, oy = blockIdx.y * blockDim.y + threadIdx.y;
    int oh = (h + 1) / 2, ow = (w + 1) / 2;
    if (ox >= ow || oy >= oh) return;  // guard
    float best = 0;
    int place = -1;
    for (int k = 0; k < 4; k++) {
        int y = 2 * oy + k / 2, x = 2 * ox + k % 2;
        if (y >= h || x >= w) continue;  // guard
        if (place < 0 || in[y * w + x] > best) {
            best = in[y * w + x];
            place = k;
        }
    }
    out[oy * ow + ox] = best;
    where[oy * ow + ox] = place;
}
""",
    data=lambda rng: {
        "in": normal(rng, 23, 17),
        "out": Blank((12, 9), f32),
        "where": Blank((12, 9), np.uint8),
        "h": i32(23),
        "w": i32(17),
    },
    launch=Launch("max_pool", (2, 2), (8, 8), "in out where h w"),
    expect=lambda d: pooled(d["in"]),
)


def pooled(x):
    x = (
        np.pad(x, ((0, 1), (0, 1)), constant_values=-np.inf)
        .reshape(12, 2, 9, 2)
        .transpose(0, 2, 1, 3)
        .reshape(12, 9, 4)
    )
    return {"out": x.max(2), "where": x.argmax(2).astype(np.uint8)}


kernel(
    "quantise_int8_dp4a",
    "Scale to bytes with saturation, then dot products of four bytes an instruction.",
    r"""
extern "C" __global__ void quantise(const float* in, signed char* out, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (signed char)max(-127, min(127, __float2int_rn(in[i] * scale)));  // guard
}
extern "C" __global__ void dot_rows(const char4* a, const char4* b, int* out, int rows, int words) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y;
    if (row >= rows) return;  // guard
    int sum = 0;
    for (int k = 0; k < words; k++) sum = __dp4a(a[row * words + k], b[column * words + k], sum);
    out[row * gridDim.y + column] = sum;
}
""",
    data=lambda rng: {
        "x": 4 * normal(rng, 40, 36),
        "y": 4 * normal(rng, 6, 36),
        "qx": Blank((40, 36), i8),
        "qy": Blank((6, 36), i8),
        "out": Blank((40, 6), i32),
        "scale": f32(16),
    },
    launch=[
        Launch("quantise", 12, 128, ("x", "qx", "scale", i32(1440))),
        Launch("quantise", 2, 128, ("y", "qy", "scale", i32(216))),
        Launch("dot_rows", (2, 6), 32, ("qx", "qy", "out", i32(40), i32(9))),
    ],
    expect=lambda d: quantised(d["x"], d["y"]),
    features="dp4a multi_launch",
)


def quantised(x, y):
    a, b = (np.rint(v * 16).clip(-127, 127).astype(i8) for v in (x, y))
    return {"qx": a, "qy": b, "out": a.astype(i32) @ b.astype(i32).T}


kernel(
    "k_means_step",
    "Each point finds the nearest centre and adds itself there; a second kernel divides. Whole "
    "numbers keep sums exact.",
    r"""
extern "C" __global__ void assign(const float2* points, const float2* centres, int* label, float* sums, int n, int k) {
    extern __shared__ float2 near[];
    if (threadIdx.x < k) near[threadIdx.x] = centres[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float2 p = points[i];
    int best = 0;
    float least = 3e38f;
    for (int c = 0; c < k; c++) {
        float dx = p.x - near[c].x, dy = p.y - near[c].y, d = dx * dx + dy * dy;
        if (d < least) { least = d; best = c; }
    }
    label[i] = best;
    atomicAdd(&sums[3 * best], p.x);
    atomicAdd(&sums[3 * best + 1], p.y);
    atomicAdd(&sums[3 * best + 2], 1.f);
}
extern "C" __global__ void move_centres(float2* centres, const float* sums, int k) {
    int c = threadIdx.x;
    if (c < k && sums[3 * c + 2] > 0)  // guard
        centres[c] = make_float2(sums[3 * c] / sums[3 * c + 2], sums[3 * c + 1] / sums[3 * c + 2]);
}
""",
    data=lambda rng: {
        "points": whole(rng, -100, 100, 300, 2),
        "centres": whole(rng, -100, 100, 7, 2),
        "label": Blank(300, i32),
        "sums": np.zeros((7, 3), f32),
        "n": i32(300),
        "k": i32(7),
    },
    launch=[
        Launch("assign", 3, 128, "points centres label sums n k", shared=56),
        Launch("move_centres", 1, 32, "centres sums k"),
    ],
    expect=lambda d: k_means(d["points"], d["centres"]),
    features="dynamic_shared vectors multi_launch",
)


def k_means(points, centres):
    label = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    sums = np.array([[*points[label == c].sum(0), (label == c).sum()] for c in range(7)], f32)
    moved = np.where(sums[:, 2:] > 0, sums[:, :2] / np.maximum(sums[:, 2:], 1), centres)
    return {"label": label.astype(i32), "sums": sums, "centres": moved.astype(f32)}


kernel(
    "k_nearest_insertion",
    "Brute-force neighbours: a thread a query keeps the best k sorted in registers, candidates come in shared tiles.",
    r"""
#define K 3
extern "C" __global__ void nearest(const int3* points, const int3* queries, int* found, int n, int m) {
    __shared__ int3 tile[32];
    int q = blockIdx.x * 32 + threadIdx.x;
    int3 me = (q < m) ? queries[q] : make_int3(0, 0, 0);  // guard
    int distance[K], index[K];
    for (int k = 0; k < K; k++) { distance[k] = 0x7fffffff; index[k] = -1; }
    for (int start = 0; start < n; start += 32) {
        if (start + threadIdx.x < n) tile[threadIdx.x] = points[start + threadIdx.x];  // guard
        __syncthreads();
        for (int j = 0; j < min(32, n - start); j++) {
            int dx = me.x - tile[j].x, dy = me.y - tile[j].y, dz = me.z - tile[j].z;
            int d = dx * dx + dy * dy + dz * dz, at = start + j;
            #pragma unroll
            for (int k = 0; k < K; k++)
                if (d < distance[k]) {
                    int t = distance[k]; distance[k] = d; d = t;
                    t = index[k]; index[k] = at; at = t;
                }
        }
        __syncthreads();
    }
    if (q < m)  // guard
        for (int k = 0; k < K; k++) found[q * K + k] = index[k];
}
""",
    data=lambda rng: {
        "points": rng.integers(-50, 50, (75, 3), dtype=i32),
        "queries": rng.integers(-50, 50, (45, 3), dtype=i32),
        "found": Blank((45, 3), i32),
        "n": i32(75),
        "m": i32(45),
    },
    launch=Launch("nearest", 2, 32, "points queries found n m"),
    expect=lambda d: {
        "found": ((d["queries"][:, None] - d["points"]) ** 2).sum(2).argsort(1, kind="stable")[:, :3].astype(i32)
    },
    features="shared vectors",
)
