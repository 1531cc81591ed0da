"""Training: losses, gradients, statistics of a batch, an optimiser's step."""

from ..kernel import Awkward, Blank, Launch, Near, f32, f64, i32, kernel, normal, np, whole
from .learning import softmax

kernel(
    "embedding_lookup_backward",
    "Rows of a table by token; on the way back gradients of equal tokens meet in atomics.",
    r"""
extern "C" __global__ void embed(const int* tokens, const float* table, float* out, int width, int vocabulary) {
    int token = tokens[blockIdx.x];
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[blockIdx.x * width + i] = (token < vocabulary) ? table[token * width + i] : 0.f;  // guard
}
extern "C" __global__ void embed_gradient(const int* tokens, const float* gradient, float* table, int width,
        int vocabulary) {
    int token = tokens[blockIdx.x];
    if (token >= vocabulary) return;  // guard
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        atomicAdd(&table[token * width + i], gradient[blockIdx.x * width + i]);
}
""",
    data=lambda rng: {
        "tokens": rng.integers(0, 12, 25, dtype=i32),
        "table": whole(rng, -9, 9, 10, 20),
        "out": Blank((25, 20), f32),
        "gradient": whole(rng, -9, 9, 25, 20),
        "sums": np.zeros((10, 20), f32),
        "width": i32(20),
        "vocabulary": i32(10),
    },
    launch=[
        Launch("embed", 25, 16, "tokens table out width vocabulary"),
        Launch("embed_gradient", 25, 16, "tokens gradient sums width vocabulary"),
    ],
    expect=lambda d: embedded(d),
    features="multi_launch",
)


def embedded(d):
    table = np.concatenate([d["table"], np.zeros((2, 20), f32)])
    sums = np.zeros((12, 20), f32)
    np.add.at(sums, d["tokens"], d["gradient"])
    return {"out": table[d["tokens"]], "sums": sums[:10]}


def most_are_right(rng):
    scores = whole(rng, -9, 9, 30, 40)
    truth = np.where(np.arange(30) % 5, scores.argmax(1), 40).astype(i32)
    return {
        "scores": scores,
        "truth": truth,
        "chosen": Blank(30, i32),
        "correct": np.zeros(1, i32),
        "rows": i32(30),
        "classes": i32(40),
    }


kernel(
    "classify_rows_vote",
    "The class of each row, the first of equal ones: value and index packed into one 64-bit key for a warp's maximum.",
    r"""
extern "C" __global__ void classify(const float* scores, const int* truth, int* chosen, int* correct, int rows,
        int classes) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;  // guard
    unsigned long long best = 0;
    for (int c = lane; c < classes; c += 32) {
        unsigned bits = __float_as_uint(scores[row * classes + c]);
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        unsigned long long key = (unsigned long long)bits << 32 | (0xffffffffu - c);
        best = max(best, key);
    }
    for (int o = 16; o; o >>= 1) best = max(best, __shfl_down_sync(0xffffffff, best, o));
    if (lane == 0) {
        int pick = 0xffffffffu - (unsigned)best;
        chosen[row] = pick;
        if (pick == truth[row]) atomicAdd(correct, 1);
    }
}
""",
    data=lambda rng: {
        "scores": whole(rng, -9, 9, 30, 40),
        "truth": rng.integers(0, 6, 30, dtype=i32),
        "chosen": Blank(30, i32),
        "correct": np.zeros(1, i32),
        "rows": i32(30),
        "classes": i32(40),
    },
    launch=Launch("classify", 8, 128, "scores truth chosen correct rows classes"),
    expect=lambda d: {
        "chosen": d["scores"].argmax(1).astype(i32),
        "correct": (d["scores"].argmax(1) == d["truth"]).sum(keepdims=True).astype(i32),
    },
    features="shuffles bit_casts",
    awkward=Awkward("more than one row is right, so that warps meet at the count", most_are_right),
)

kernel(
    "cross_entropy_gradient",
    "Loss and gradient together: log of the sum of exponentials, a thread a sample.",
    r"""
extern "C" __global__ void cross_entropy(const double* logits, const int* labels, double* loss, double* gradient,
        int n, int classes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    const double* z = logits + i * classes;
    double most = z[0], sum = 0;
    for (int c = 1; c < classes; ++c) most = fmax(most, z[c]);
    for (int c = 0; c < classes; ++c) sum += exp(z[c] - most);
    loss[i] = log(sum) + most - z[labels[i]];
    for (int c = 0; c < classes; ++c) gradient[i * classes + c] = (exp(z[c] - most) / sum - (c == labels[i])) / n;
}
""",
    data=lambda rng: {
        "logits": rng.standard_normal((45, 7)),
        "labels": rng.integers(0, 7, 45, dtype=i32),
        "loss": Blank(45, f64),
        "gradient": Blank((45, 7), f64),
        "n": i32(45),
        "classes": i32(7),
    },
    launch=Launch("cross_entropy", 2, 32, "logits labels loss gradient n classes"),
    expect=lambda d: cross_entropy(d["logits"], d["labels"]),
    rounding=Near(1e-12, 1e-14, "another library's exp and log"),
)


def cross_entropy(z, labels):
    p = softmax(z)
    return {"loss": -np.log(p[np.arange(45), labels]), "gradient": (p - np.eye(7)[labels]) / 45}


kernel(
    "batch_norm_channels",
    "Statistics over batch and picture: a block a channel, layout NCHW, running mean updated.",
    r"""
extern "C" __global__ void batch_norm(float* x, float* running, int batch, int channels, int pixels, float momentum) {
    __shared__ double total[32], squares[32];
    int c = blockIdx.x, t = threadIdx.x, count = batch * pixels;
    double s = 0, q = 0;
    for (int i = t; i < count; i += 32) {
        float v = x[(i / pixels * channels + c) * pixels + i % pixels];
        s += v;
        q += (double)v * v;
    }
    total[t] = s;
    squares[t] = q;
    __syncthreads();
    for (int k = 16; k; k >>= 1) {
        if (t < k) {
            total[t] += total[t + k];
            squares[t] += squares[t + k];
        }
        __syncthreads();
    }
    double mean = total[0] / count, deviation = sqrt(squares[0] / count - mean * mean + 1e-5);
    for (int i = t; i < count; i += 32) {
        float* v = &x[(i / pixels * channels + c) * pixels + i % pixels];
        *v = (float)((*v - mean) / deviation);
    }
    if (t == 0) running[c] += momentum * ((float)mean - running[c]);
}
""",
    data=lambda rng: {
        "x": normal(rng, 4, 5, 21),
        "running": normal(rng, 5),
        "batch": i32(4),
        "channels": i32(5),
        "pixels": i32(21),
        "momentum": f32(0.1),
    },
    launch=Launch("batch_norm", 5, 32, "x running batch channels pixels momentum"),
    expect=lambda d: batch_norm(d["x"].astype(f64), d["running"]),
    rounding=Near(1e-5, 1e-6, "sums in another order"),
    features="shared",
)


def batch_norm(x, running):
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    y = (x - mean[:, None]) / np.sqrt(variance + 1e-5)[:, None]
    return {"x": y.astype(f32), "running": (running + 0.1 * (mean - running)).astype(f32)}


kernel(
    "adam_update",
    "An optimiser's step: three buffers change together, bias corrections come as scalars.",
    r"""
extern "C" __global__ void adam(double* w, const double* g, double* m, double* v, double rate, double fix_m,
        double fix_v, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        double mean = m[i] = 0.9 * m[i] + 0.1 * g[i];
        double square = v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        w[i] -= rate * (mean * fix_m) / (sqrt(square * fix_v) + 1e-8);
    }
}
""",
    data=lambda rng: {
        **{name: rng.standard_normal(150) for name in ("w", "g", "m")},
        "v": rng.random(150),
        "rate": f64(0.01),
        "fix_m": f64(1 / (1 - 0.9**3)),
        "fix_v": f64(1 / (1 - 0.999**3)),
        "n": i32(150),
    },
    launch=Launch("adam", 2, 64, "w g m v rate fix_m fix_v n"),
    expect=lambda d: adam(d),
    rounding=Near(1e-13, 1e-14, "fused multiply-add"),
)


def adam(d):
    m, v = 0.9 * d["m"] + 0.1 * d["g"], 0.999 * d["v"] + 0.001 * d["g"] ** 2
    return {"m": m, "v": v, "w": d["w"] - 0.01 * m * d["fix_m"] / (np.sqrt(v * d["fix_v"]) + 1e-8)}
