"""Signals: transforms, filters, correlations, in shared and constant memory."""

from ..kernel import Blank, Global, Launch, Near, f32, f64, i16, i32, kernel, np, whole

kernel(
    "fft_radix2_shared",
    "A block a transform of 128 points: bit reversal by __brev, then seven stages of butterflies.",
    r"""
extern "C" __global__ void fft128(const double2* in, double2* out) {
    __shared__ double re[128], im[128];
    const int t = threadIdx.x;
    for (int i = t; i < 128; i += 64) {
        int from = __brev(i) >> 25;
        double2 z = in[blockIdx.x * 128 + from];
        re[i] = z.x;
        im[i] = z.y;
    }
    __syncthreads();
    for (int half = 1; half < 128; half *= 2) {
        int k = t % half, top = t / half * 2 * half + k, low = top + half;
        double s, c;
        sincospi(-(double)k / half, &s, &c);
        double x = re[low] * c - im[low] * s, y = re[low] * s + im[low] * c;
        double u = re[top], v = im[top];
        re[top] = u + x; im[top] = v + y;
        re[low] = u - x; im[low] = v - y;
        __syncthreads();
    }
    for (int i = t; i < 128; i += 64) out[blockIdx.x * 128 + i] = make_double2(re[i], im[i]);
}
""",
    data=lambda rng: {
        "in": (rng.standard_normal((3, 128)) + 1j * rng.standard_normal((3, 128))).view(f64),
        "out": Blank((3, 256), f64),
    },
    launch=Launch("fft128", 3, 64, "in out"),
    expect=lambda d: {"out": np.fft.fft(d["in"].view(complex)).view(f64)},
    rounding=Near(1e-12, 1e-12, "another order of operations"),
    features="shared vectors",
)

kernel(
    "dct_8x8_blocks",
    "The cosine transform of image blocks: two small products with a table in constant memory.",
    r"""
__constant__ float basis[64];
extern "C" __global__ void dct(const float* image, float* coefficients, int width, int height) {
    __shared__ float block[8][8], half[8][8];
    int u = threadIdx.x, v = threadIdx.y;
    int x = blockIdx.x * 8 + u, y = blockIdx.y * 8 + v;
    block[v][u] = (x < width && y < height) ? image[y * width + x] - 128 : 0;  // guard
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += basis[u * 8 + k] * block[v][k];
    half[v][u] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < 8; k++) sum += basis[v * 8 + k] * half[k][u];
    coefficients[(blockIdx.y * gridDim.x + blockIdx.x) * 64 + v * 8 + u] = sum;
}
""",
    data=lambda rng: {
        "image": whole(rng, 0, 256, 21, 29),
        "coefficients": Blank((3, 4, 8, 8), f32),
        "width": i32(29),
        "height": i32(21),
        "basis": Global(np.round(cosines(), 10).astype(f32).ravel()),
    },
    launch=Launch("dct", (4, 3), (8, 8), "image coefficients width height"),
    expect=lambda d: {"coefficients": transformed(d["image"].astype(float)).astype(f32)},
    rounding=Near(1e-5, 1e-3, "float32 instead of double"),
    features="shared constant",
)


def cosines():
    k, n = np.mgrid[0:8, 0:8]
    return np.where(k == 0, np.sqrt(1 / 8), 0.5 * np.cos(np.pi * (2 * n + 1) * k / 16))


def transformed(image):
    padded = np.pad(image - 128, ((0, 3), (0, 3)))
    tiles = padded.reshape(3, 8, 4, 8).transpose(0, 2, 1, 3)
    return cosines() @ tiles @ cosines().T


kernel(
    "fir_filter_constant_taps",
    "A finite impulse response: taps in constant memory, all threads read the same one at once.",
    r"""
__constant__ int taps[16];
extern "C" __global__ void fir(const short* in, int* out, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    int sum = 0;
    for (int k = 0; k < count && k <= i; k++) sum += taps[k] * in[i - k];
    out[i] = sum >> 4;
}
""",
    data=lambda rng: {
        "in": rng.integers(-2000, 2000, 600, dtype=i16),
        "out": Blank(600, i32),
        "n": i32(600),
        "count": i32(13),
        "taps": Global(np.pad(rng.integers(-20, 20, 13, dtype=i32), (0, 3))),
    },
    launch=Launch("fir", 5, 128, "in out n count"),
    expect=lambda d: {"out": (np.convolve(d["in"].astype(i32), d["taps"].value[:13])[:600] >> 4).astype(i32)},
    features="constant",
)

kernel(
    "separable_convolution",
    "Rows and then columns: two passes of five taps instead of one of twenty-five.",
    r"""
template <bool ROWS>
__global__ void convolve(const float* in, float* out, const float* __restrict__ filter, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;  // guard
    float sum = 0;
    for (int k = -2; k <= 2; k++) {
        int u = ROWS ? x + k : x, v = ROWS ? y : y + k;
        if (u >= 0 && u < w && v >= 0 && v < h) sum += filter[k + 2] * in[v * w + u];  // guard
    }
    out[y * w + x] = sum;
}
""",
    data=lambda rng: {
        "in": whole(rng, -9, 9, 30, 41),
        "between": Blank((30, 41), f32),
        "out": Blank((30, 41), f32),
        "filter": whole(rng, -4, 5, 5),
        "h": i32(30),
        "w": i32(41),
    },
    launch=[
        Launch("convolve<true>", (2, 4), (32, 8), "in between filter h w"),
        Launch("convolve<false>", (2, 4), (32, 8), "between out filter h w"),
    ],
    expect=lambda d: separable(d["in"], d["filter"]),
    features="templates multi_launch",
    names=("convolve<true>", "convolve<false>"),
)


def separable(image, taps):
    rows = np.array([np.correlate(line, taps, "same") for line in image], f32)
    columns = np.array([np.correlate(line, taps, "same") for line in rows.T], f32).T
    return {"between": rows, "out": columns}


kernel(
    "haar_wavelet_levels",
    "Averages in front, differences behind, again on the front half: a block keeps the signal in shared memory.",
    r"""
extern "C" __global__ void haar(int* signal, int n) {
    extern __shared__ int s[];
    int* base = signal + blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = base[i];
    __syncthreads();
    for (int length = n; length > 1; length /= 2) {
        int half = length / 2, t = threadIdx.x, mean = 0, detail = 0;
        if (t < half) {  // guard
            detail = s[2 * t] - s[2 * t + 1];
            mean = s[2 * t + 1] + (detail >> 1);
        }
        __syncthreads();
        if (t < half) {  // guard
            s[t] = mean;
            s[half + t] = detail;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) base[i] = s[i];
}
""",
    data=lambda rng: {"signal": rng.integers(-500, 500, (3, 64), dtype=i32), "n": i32(64)},
    launch=Launch("haar", 3, 48, "signal n", shared=256),
    expect=lambda d: {"signal": haar(d["signal"].copy())},
    features="dynamic_shared",
)


def haar(s):
    length = s.shape[1]
    while length > 1:
        a, b = s[:, 0:length:2].copy(), s[:, 1:length:2].copy()
        s[:, : length // 2] = b + ((a - b) >> 1)
        s[:, length // 2 : length] = a - b
        length //= 2
    return s


kernel(
    "goertzel_tones",
    "The strength of single frequencies: a thread a tone, two values of state, a recurrence over all samples.",
    r"""
extern "C" __global__ void goertzel(const double* samples, int n, const double* coefficient, double* power, int tones) {
    int tone = blockIdx.x * blockDim.x + threadIdx.x;
    if (tone >= tones) return;  // guard
    double c = coefficient[tone], before = 0, last = 0;
    for (int i = 0; i < n; i++) {
        double now = samples[i] + c * last - before;
        before = last;
        last = now;
    }
    power[tone] = last * last + before * before - c * last * before;
}
""",
    data=lambda rng: {
        "samples": rng.standard_normal(200),
        "n": i32(200),
        "coefficient": np.round(2 * np.cos(2 * np.pi * np.arange(40) / 200), 14),
        "power": Blank(40, f64),
        "tones": i32(40),
    },
    launch=Launch("goertzel", 2, 32, "samples n coefficient power tones"),
    expect=lambda d: {"power": abs(np.fft.fft(d["samples"])[:40]) ** 2},
    rounding=Near(1e-7, 1e-7, "a recurrence instead of a transform"),
)

kernel(
    "autocorrelation_lags",
    "A block a lag: products of the signal with itself, shifted; partial sums meet in a shared atomic.",
    r"""
extern "C" __global__ void autocorrelation(const int* x, long long* r, int n) {
    __shared__ unsigned long long sum;
    int lag = blockIdx.x;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    long long part = 0;
    for (int i = threadIdx.x; i + lag < n; i += blockDim.x) part += (long long)x[i] * x[i + lag];
    atomicAdd(&sum, (unsigned long long)part);
    __syncthreads();
    if (threadIdx.x == 0) r[lag] = (long long)sum;
}
""",
    data=lambda rng: {"x": rng.integers(-(10**6), 10**6, 300, dtype=i32), "r": Blank(15, np.int64), "n": i32(300)},
    launch=Launch("autocorrelation", 15, 64, "x r n"),
    expect=lambda d: {"r": np.array([(d["x"][: 300 - k].astype(np.int64) * d["x"][k:]).sum() for k in range(15)])},
    features="shared",
)

kernel(
    "template_match_2d",
    "Where does a small picture occur in a large one? Sums of absolute differences, the picture in constant memory.",
    r"""
#define S 5
__constant__ unsigned char pattern[S][S];
extern "C" __global__ void match_template(const unsigned char* image, unsigned* score, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > columns - S || y > rows - S) return;  // guard
    unsigned sum = 0;
    #pragma unroll
    for (int v = 0; v < S; v++)
        #pragma unroll
        for (int u = 0; u < S; u++) sum = __usad(image[(y + v) * columns + x + u], pattern[v][u], sum);
    score[y * (columns - S + 1) + x] = sum;
}
""",
    data=lambda rng: {
        "image": rng.integers(0, 256, (24, 33), dtype=np.uint8),
        "score": Blank((20, 29), np.uint32),
        "rows": i32(24),
        "columns": i32(33),
        "pattern": Global(rng.integers(0, 256, (5, 5), dtype=np.uint8)),
    },
    launch=Launch("match_template", (4, 3), (8, 8), "image score rows columns"),
    expect=lambda d: {
        "score": abs(np.lib.stride_tricks.sliding_window_view(d["image"].astype(int), (5, 5)) - d["pattern"].value)
        .sum((2, 3))
        .astype(np.uint32)
    },
    features="constant",
)

kernel(
    "exponential_smoothing",
    "A first-order recursive filter, channels side by side: a thread a channel, samples interleaved.",
    r"""
extern "C" __global__ void smooth(const float* in, float* out, float alpha, int samples, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;  // guard
    float state = in[c];
    for (int s = 0; s < samples; s++) {
        state = __fmaf_rn(alpha, in[s * channels + c] - state, state);
        out[s * channels + c] = state;
    }
}
""",
    data=lambda rng: {
        "in": whole(rng, -100, 100, 25, 37),
        "out": Blank((25, 37), f32),
        "alpha": f32(0.3),
        "samples": i32(25),
        "channels": i32(37),
    },
    launch=Launch("smooth", 2, 32, "in out alpha samples channels"),
    expect=lambda d: {"out": smoothed(d["in"].astype(f64)).astype(f32)},
    rounding=Near(1e-5, 1e-5, "float32 instead of double"),
)


def smoothed(x):
    state, out = x[0], []
    for row in x:
        state = state + float(f32(0.3)) * (row - state)
        out.append(state)
    return np.array(out)


kernel(
    "window_and_shift",
    "A Hann window and a frequency shift by complex products: cosines of a linear phase.",
    r"""
extern "C" __global__ void window_and_shift(const float* in, float2* out, float cycles, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float hann = 0.5f - 0.5f * cospif(2.f * i / (n - 1));
    float phase = 2.f * cycles * i / n, value = in[i] * hann;
    out[i] = make_float2(value * cospif(phase), -value * sinpif(phase));
}
""",
    data=lambda rng: {
        "in": rng.standard_normal(300, dtype=f32),
        "out": Blank((300, 2), f32),
        "cycles": f32(12.5),
        "n": i32(300),
    },
    launch=Launch("window_and_shift", 3, 128, "in out cycles n"),
    expect=lambda d: {"out": (lambda z: np.stack([z.real, z.imag], 1).astype(f32))(windowed(d["in"].astype(f64)))},
    tolerance=Near(1e-5, 2e-6, "approximate functions: cospif, sinpif"),
    features="vectors",
)


def windowed(x):
    i = np.arange(300)
    return x * np.hanning(300) * np.exp(-2j * np.pi * 12.5 * i / 300)
