"""Images: neighbourhoods, edges of the picture, tiles with a halo, tables of tones."""

from ..kernel import Blank, Global, Launch, Near, blocks, f32, i32, kernel, normal, np, u8, u32

ROWS, COLUMNS = 37, 53
TILES = (blocks(COLUMNS, 16), blocks(ROWS, 8))


def picture(rng, *channels):
    """An image with smooth parts and noise."""
    y, x = np.mgrid[0:ROWS, 0:COLUMNS]
    plain = np.round(128 + 60 * np.sin(x / 7) + 50 * np.cos(y / 5), 6)
    shape = (ROWS, COLUMNS, *channels)
    return (plain.reshape(ROWS, COLUMNS, *[1] * len(channels)) + rng.integers(-17, 18, shape)).clip(0, 255).astype(u8)


def around(image, radius, mode="edge"):
    """``offset (dy, dx) → shifted image``, edges repeated."""
    padded = np.pad(image, radius, mode=mode)
    rows, columns = image.shape
    return {
        (dy, dx): padded[radius + dy : radius + dy + rows, radius + dx : radius + dx + columns]
        for dy in range(-radius, radius + 1)
        for dx in range(-radius, radius + 1)
    }


SIZE = {"rows": i32(ROWS), "columns": i32(COLUMNS)}

kernel(
    "box_blur",
    "The mean of a square around each pixel; at the edges fewer pixels are there.",
    r"""
extern "C" __global__ void box_blur(const unsigned char* in, unsigned char* out, int rows, int columns, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;  // guard
    int sum = 0, count = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++) {
            int row = y + dy, column = x + dx;
            if (row >= 0 && row < rows && column >= 0 && column < columns) {  // guard
                sum += in[row * columns + column];
                count++;
            }
        }
    out[y * columns + x] = sum / count;
}
""",
    data=lambda rng: {"in": picture(rng), "out": Blank((ROWS, COLUMNS), u8), **SIZE, "radius": i32(2)},
    launch=Launch("box_blur", TILES, (16, 8), "in out rows columns radius"),
    expect=lambda d: {
        "out": (
            sum(np.pad(d["in"].astype(int), 2)[a : a + ROWS, b : b + COLUMNS] for a in range(5) for b in range(5))
            // sum(
                np.pad(np.ones((ROWS, COLUMNS), int), 2)[a : a + ROWS, b : b + COLUMNS]
                for a in range(5)
                for b in range(5)
            )
        ).astype(u8)
    },
)

kernel(
    "sobel_edges",
    "Two derivatives by 3x3 stencils; clamped indices repeat the edge.",
    r"""
__device__ int pixel(const unsigned char* image, int y, int x, int rows, int columns) {
    return image[min(max(y, 0), rows - 1) * columns + min(max(x, 0), columns - 1)];
}
extern "C" __global__ void sobel(const unsigned char* in, unsigned char* edges, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) {  // guard
        #define P(dy, dx) pixel(in, y + dy, x + dx, rows, columns)
        int gx = P(-1, 1) + 2 * P(0, 1) + P(1, 1) - P(-1, -1) - 2 * P(0, -1) - P(1, -1);
        int gy = P(1, -1) + 2 * P(1, 0) + P(1, 1) - P(-1, -1) - 2 * P(-1, 0) - P(-1, 1);
        edges[y * columns + x] = min(255, abs(gx) + abs(gy));
    }
}
""",
    data=lambda rng: {"in": picture(rng), "edges": Blank((ROWS, COLUMNS), u8), **SIZE},
    launch=Launch("sobel", TILES, (16, 8), "in edges rows columns"),
    expect=lambda d: {"edges": sobel_of(d["in"])},
)


def sobel_of(image):
    """Sum of the absolute derivatives, at most 255."""
    p = around(image.astype(int), 1)
    gx = sum(w * (p[dy, 1] - p[dy, -1]) for dy, w in ((-1, 1), (0, 2), (1, 1)))
    gy = sum(w * (p[1, dx] - p[-1, dx]) for dx, w in ((-1, 1), (0, 2), (1, 1)))
    return np.minimum(255, abs(gx) + abs(gy)).astype(u8)


kernel(
    "gaussian_tile_halo",
    "A tile with its halo in shared memory: threads load more elements than they compute.",
    r"""
#define TILE 16
#define R 2
__constant__ float weights[2 * R + 1];
extern "C" __global__ void gaussian(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[TILE + 2 * R][TILE + 2 * R];
    int left = blockIdx.x * TILE - R, top = blockIdx.y * TILE - R;
    for (int r = threadIdx.y; r < TILE + 2 * R; r += TILE)
        for (int c = threadIdx.x; c < TILE + 2 * R; c += TILE) {
            int y = min(max(top + r, 0), rows - 1), x = min(max(left + c, 0), columns - 1);
            tile[r][c] = in[y * columns + x];
        }
    __syncthreads();
    int x = left + R + threadIdx.x, y = top + R + threadIdx.y;
    if (x >= columns || y >= rows) return;  // guard
    float sum = 0;
    for (int dy = 0; dy <= 2 * R; dy++) {
        float line = 0;
        for (int dx = 0; dx <= 2 * R; dx++) line += weights[dx] * tile[threadIdx.y + dy][threadIdx.x + dx];
        sum += weights[dy] * line;
    }
    out[y * columns + x] = sum;
}
""",
    data=lambda rng: {
        "in": normal(rng, ROWS, COLUMNS),
        "out": Blank((ROWS, COLUMNS), f32),
        **SIZE,
        "weights": Global(np.array([1, 4, 6, 4, 1], f32) / 16),
    },
    launch=Launch("gaussian", (4, 3), (16, 16), "in out rows columns"),
    expect=lambda d: {
        "out": sum(
            d["weights"].value[dy + 2] * d["weights"].value[dx + 2] * part
            for (dy, dx), part in around(d["in"].astype(float), 2).items()
        ).astype(f32)
    },
    rounding=Near(1e-5, 1e-6, "sums in another order, fused multiply-add"),
    features="constant shared",
)

kernel(
    "bilateral_filter",
    "Weights that depend on the data: near pixels of like tone count most.",
    r"""
extern "C" __global__ void bilateral(const float* in, float* out, int rows, int columns, float space, float tone) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;  // guard
    const float center = in[y * columns + x];
    float sum = 0.f, norm = 0.f;
    for (int v = max(0, y - 3); v <= min(rows - 1, y + 3); ++v) {
        for (int u = max(0, x - 3); u <= min(columns - 1, x + 3); ++u) {
            float value = in[v * columns + u], difference = value - center;
            float d2 = (u - x) * (u - x) + (v - y) * (v - y);
            float weight = __expf(-d2 * space - difference * difference * tone);
            sum += weight * value;
            norm += weight;
        }
    }
    out[y * columns + x] = __fdividef(sum, norm);
}
""",
    data=lambda rng: {
        "in": rng.random((19, 21), dtype=f32),
        "out": Blank((19, 21), f32),
        "rows": i32(19),
        "columns": i32(21),
        "space": f32(0.2),
        "tone": f32(8),
    },
    launch=Launch("bilateral", (2, 3), (16, 8), "in out rows columns space tone"),
    expect=lambda d: {"out": bilateral_of(d["in"].astype(float))},
    tolerance=Near(2e-5, 1e-6, "approximate functions: __expf, __fdividef"),
)


def bilateral_of(image):
    """The same by shifted images; NaN stands for what is outside."""
    total = norm = 0
    shifted = {}
    padded = np.pad(image, 3, constant_values=np.nan)
    rows, columns = image.shape
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            shifted[dy, dx] = padded[3 + dy : 3 + dy + rows, 3 + dx : 3 + dx + columns]
    for (dy, dx), part in shifted.items():
        weight = np.exp(-(dx * dx + dy * dy) * float(f32(0.2)) - (part - image) ** 2 * 8)
        total = total + np.nan_to_num(weight * part)
        norm = norm + np.nan_to_num(weight)
    return (total / norm).astype(f32)


kernel(
    "resize_bilinear",
    "An output pixel looks back to where it came from and mixes four neighbours.",
    r"""
extern "C" __global__ void resize(const float* __restrict__ in, int h, int w, float* __restrict__ out, int H, int W) {
    int X = blockIdx.x * blockDim.x + threadIdx.x;
    int Y = blockIdx.y * blockDim.y + threadIdx.y;
    if (X >= W || Y >= H) return;  // guard
    float fx = X * (w - 1) / (float)(W - 1), fy = Y * (h - 1) / (float)(H - 1);
    int x = min((int)fx, w - 2), y = min((int)fy, h - 2);
    float a = fx - x, b = fy - y;
    const float* p = in + y * w + x;
    float top = p[0] + a * (p[1] - p[0]);
    float low = p[w] + a * (p[w + 1] - p[w]);
    out[Y * W + X] = top + b * (low - top);
}
""",
    data=lambda rng: {
        "in": rng.random((11, 14), dtype=f32),
        "h": i32(11),
        "w": i32(14),
        "out": Blank((29, 43), f32),
        "H": i32(29),
        "W": i32(43),
    },
    launch=Launch("resize", (3, 4), (16, 8), "in h w out H W"),
    expect=lambda d: {"out": resized(d["in"].astype(float), 29, 43).astype(f32)},
    rounding=Near(1e-5, 1e-6, "float32 instead of double"),
)


def resized(image, rows, columns):
    """Linear along rows, then along columns."""
    h, w = image.shape
    y, x = np.linspace(0, h - 1, rows), np.linspace(0, w - 1, columns)
    along = np.array([np.interp(x, np.arange(w), row) for row in image])
    return np.array([np.interp(y, np.arange(h), column) for column in along.T]).T


kernel(
    "median_3x3",
    "Nine values sorted in registers by a network of exchanges; no branch depends on the data.",
    r"""
__device__ void exchange(unsigned char& a, unsigned char& b) {
    unsigned char low = min(a, b);
    b = max(a, b);
    a = low;
}
extern "C" __global__ void median(const unsigned char* in, unsigned char* out, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= columns - 1 || y >= rows - 1) {  // guard
        if (x < columns && y < rows) out[y * columns + x] = 0;  // guard
        return;
    }
    unsigned char v[9];
    #pragma unroll
    for (int k = 0; k < 9; k++) v[k] = in[(y + k / 3 - 1) * columns + x + k % 3 - 1];
    #pragma unroll
    for (int round = 0; round < 5; round++)
        #pragma unroll
        for (int k = round + 1; k < 9; k++) exchange(v[round], v[k]);
    out[y * columns + x] = v[4];
}
""",
    data=lambda rng: {"in": rng.integers(0, 256, (ROWS, COLUMNS), dtype=u8), "out": Blank((ROWS, COLUMNS), u8), **SIZE},
    launch=Launch("median", TILES, (16, 8), "in out rows columns"),
    expect=lambda d: {"out": median_of(d["in"])},
)


def median_of(image):
    """0 along the edge."""
    out = np.median(np.stack(list(around(image, 1).values())), axis=0).astype(u8)
    out[[0, -1]] = 0
    out[:, [0, -1]] = 0
    return out


kernel(
    "morphology_open",
    "Erosion and dilation as one kernel with a functor for the difference; two launches make an opening.",
    r"""
struct Erode { static const int start = 255; __device__ int operator()(int a, int b) const { return min(a, b); } };
struct Dilate { static const int start = 0; __device__ int operator()(int a, int b) const { return max(a, b); } };
template <class Operation>
__global__ void morph(const unsigned char* in, unsigned char* out, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;  // guard
    Operation pick;
    int found = Operation::start;
    for (int k = -2; k <= 2; k++) {
        if (x + k >= 0 && x + k < columns) found = pick(found, in[y * columns + x + k]);  // guard
        if (y + k >= 0 && y + k < rows) found = pick(found, in[(y + k) * columns + x]);  // guard
    }
    out[y * columns + x] = found;
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 256, (ROWS, COLUMNS), dtype=u8),
        "eroded": Blank((ROWS, COLUMNS), u8),
        "out": Blank((ROWS, COLUMNS), u8),
        **SIZE,
    },
    launch=[
        Launch("morph<Erode>", TILES, (16, 8), "in eroded rows columns"),
        Launch("morph<Dilate>", TILES, (16, 8), "eroded out rows columns"),
    ],
    expect=lambda d: opened(d["in"]),
    features="templates functors multi_launch",
    names=("morph<Erode>", "morph<Dilate>"),
)


def opened(image):
    """By a cross of five by five; repeated edges change neither minimum nor maximum within the cross."""

    def cross(picture, choose, fill):
        padded = np.pad(picture, 2, constant_values=fill)
        parts = [padded[2 : 2 + ROWS, 2 + k : 2 + k + COLUMNS] for k in range(-2, 3)]
        parts += [padded[2 + k : 2 + k + ROWS, 2 : 2 + COLUMNS] for k in range(-2, 3)]
        return choose(np.stack(parts), axis=0)

    eroded = cross(image, np.min, 255)
    return {"eroded": eroded, "out": cross(eroded, np.max, 0)}


kernel(
    "rotate_nearest",
    "A rotation by table values of sine and cosine: outside of the source is background.",
    r"""
extern "C" __global__ void rotate(const int* in, int* out, int size, float cosine, float sine) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size) return;  // guard
    float half = 0.5f * (size - 1), dx = x - half, dy = y - half;
    int u = __float2int_rn(__fadd_rn(__fadd_rn(__fmul_rn(cosine, dx), __fmul_rn(sine, dy)), half));
    int v = __float2int_rn(__fadd_rn(__fsub_rn(__fmul_rn(cosine, dy), __fmul_rn(sine, dx)), half));
    bool inside = u >= 0 && u < size && v >= 0 && v < size;
    out[y * size + x] = (inside) ? in[v * size + u] : -1;  // guard
}
""",
    data=lambda rng: {
        "in": rng.integers(0, 1000, (41, 41), dtype=i32),
        "out": Blank((41, 41), i32),
        "size": i32(41),
        "cosine": f32(0.8),
        "sine": f32(0.6),
    },
    launch=Launch("rotate", (3, 6), (16, 8), "in out size cosine sine"),
    expect=lambda d: {"out": rotated(d["in"], d["cosine"], d["sine"])},
    features="rounding_intrinsics",
)


def rotated(image, cosine, sine):
    """In float32, each operation rounded."""
    dy, dx = (np.mgrid[0:41, 0:41] - 20).astype(f32)
    u = np.rint(cosine * dx + sine * dy + f32(20)).astype(int)
    v = np.rint(cosine * dy - sine * dx + f32(20)).astype(int)
    inside = (u >= 0) & (u < 41) & (v >= 0) & (v < 41)
    return np.where(inside, image[v.clip(0, 40), u.clip(0, 40)], -1).astype(i32)


kernel(
    "integral_image",
    "Sums over rectangles in four reads: prefix sums along rows, then along columns.",
    r"""
extern "C" __global__ void sum_rows(const unsigned char* in, unsigned* sums, int columns) {
    __shared__ unsigned line[64];
    int x = threadIdx.x, row = blockIdx.x;
    line[x] = (x < columns) ? in[row * columns + x] : 0;  // guard
    for (int step = 1; step < blockDim.x; step <<= 1) {
        __syncthreads();
        unsigned left = x >= step ? line[x - step] : 0u;
        __syncthreads();
        line[x] += left;
    }
    if (x < columns) sums[row * columns + x] = line[x];  // guard
}
extern "C" __global__ void sum_columns(unsigned* sums, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x < columns)  // guard
        for (int row = 1; row < rows; row++) sums[row * columns + x] += sums[(row - 1) * columns + x];
}
""",
    data=lambda rng: {"in": picture(rng), "sums": Blank((ROWS, COLUMNS), u32), **SIZE},
    launch=[Launch("sum_rows", ROWS, 64, "in sums columns"), Launch("sum_columns", 2, 32, "sums rows columns")],
    expect=lambda d: {"sums": d["in"].astype(u32).cumsum(0).cumsum(1).astype(u32)},
    features="shared multi_launch",
)
