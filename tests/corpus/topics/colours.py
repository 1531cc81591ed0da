"""Tones and colours of single pixels."""

from ..kernel import Blank, Launch, Near, blocks, f32, i32, kernel, np, u8, u32
from .images import COLUMNS, ROWS, SIZE, picture

kernel(
    "histogram_equalise",
    "Three kernels in a row: histogram, running sum in one block, and a table lookup.",
    r"""
extern "C" __global__ void count_tones(const unsigned char* image, unsigned* histogram, int n) {
    __shared__ unsigned mine[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) mine[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[image[i]], 1u);
    __syncthreads();
    for (int k = threadIdx.x; k < 256; k += blockDim.x)
        if (mine[k]) atomicAdd(&histogram[k], mine[k]);
}
extern "C" __global__ void tone_table(const unsigned* histogram, unsigned char* table, int n) {
    __shared__ unsigned sums[256];
    int k = threadIdx.x;
    sums[k] = histogram[k];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        unsigned before = k >= step ? sums[k - step] : 0;
        __syncthreads();
        sums[k] += before;
        __syncthreads();
    }
    table[k] = sums[k] * 255ull / n;
}
extern "C" __global__ void apply_table(unsigned char* image, const unsigned char* table, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) image[i] = table[image[i]];  // guard
}
""",
    data=lambda rng: {
        "image": picture(rng),
        "histogram": np.zeros(256, u32),
        "table": Blank(256, u8),
        "n": i32(ROWS * COLUMNS),
    },
    launch=[
        Launch("count_tones", 3, 192, "image histogram n"),
        Launch("tone_table", 1, 256, "histogram table n"),
        Launch("apply_table", blocks(ROWS * COLUMNS, 256), 256, "image table n"),
    ],
    expect=lambda d: equalised(d["image"]),
    features="shared multi_launch",
)


def equalised(image):
    """Image, histogram and table."""
    histogram = np.bincount(image.ravel(), minlength=256)
    table = (histogram.cumsum() * 255 // image.size).astype(u8)
    return {"image": table[image], "histogram": histogram.astype(u32), "table": table}


kernel(
    "rgb_to_grey_uchar3",
    "An array of structures: three bytes a pixel, weights in fixed point.",
    r"""
extern "C" __global__ void grey(const uchar3* pixels, unsigned char* tones, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {  // guard
        uchar3 p = pixels[i];
        tones[i] = (77 * p.x + 150 * p.y + 29 * p.z + 128) >> 8;
    }
}
""",
    data=lambda rng: {"pixels": picture(rng, 3), "tones": Blank((ROWS, COLUMNS), u8), "n": i32(ROWS * COLUMNS)},
    launch=Launch("grey", blocks(ROWS * COLUMNS, 128), 128, "pixels tones n"),
    expect=lambda d: {"tones": ((d["pixels"] @ np.array([77, 150, 29]) + 128) >> 8).astype(u8)},
    features="vectors",
)

kernel(
    "rgb_to_hsv",
    "Branches that depend on the largest of three values.",
    r"""
extern "C" __global__ void hsv(const float4* in, float4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float4 c = in[i];
    float most = fmaxf(c.x, fmaxf(c.y, c.z)), least = fminf(c.x, fminf(c.y, c.z));
    float chroma = most - least, hue;
    if (chroma == 0) hue = 0;
    else if (most == c.x) hue = fmodf((c.y - c.z) / chroma + 6, 6.f);
    else if (most == c.y) hue = (c.z - c.x) / chroma + 2;
    else hue = (c.x - c.y) / chroma + 4;
    out[i] = make_float4(60 * hue, most > 0 ? chroma / most : 0, most, c.w);
}
""",
    data=lambda rng: {
        "in": (rng.integers(0, 5, (500, 4)) / 4).astype(f32),
        "out": Blank((500, 4), f32),
        "n": i32(500),
    },
    launch=Launch("hsv", 4, 128, "in out n"),
    expect=lambda d: {"out": np.array([hsv_of(*map(float, c)) for c in d["in"]], f32)},
    rounding=Near(1e-6, 1e-5, "float32 instead of double"),
    features="vectors",
)


def hsv_of(r, g, b, alpha):
    """By the standard library's formula."""
    import colorsys

    h, s, v = colorsys.rgb_to_hsv(r, g, b)
    return 360 * h, s, v, alpha


kernel(
    "error_diffusion_rows",
    "Work that is serial along a row: a thread a row carries its error on.",
    r"""
extern "C" __global__ void dither(const unsigned char* in, unsigned char* out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;  // guard
    int error = 0;
    for (int x = 0; x < columns; x++) {
        int wanted = in[row * columns + x] + error;
        int given = wanted < 128 ? 0 : 255;
        out[row * columns + x] = given;
        error = wanted - given;
    }
}
""",
    data=lambda rng: {"in": picture(rng), "out": Blank((ROWS, COLUMNS), u8), **SIZE},
    launch=Launch("dither", 2, 32, "in out rows columns"),
    expect=lambda d: {"out": dithered(d["in"].astype(int))},
)


def dithered(image):
    """All rows side by side, one column after another."""
    out = np.empty(image.shape, u8)
    error = np.zeros(len(image), int)
    for x in range(image.shape[1]):
        wanted = image[:, x] + error
        out[:, x] = np.where(wanted < 128, 0, 255)
        error = wanted - out[:, x]
    return out


kernel(
    "alpha_blend_over",
    "Bytes in one 32-bit word: the four channels of a pixel are unpacked, mixed and packed again.",
    r"""
extern "C" __global__ void blend(const unsigned* top, unsigned* bottom, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    unsigned t = top[i], b = bottom[i], alpha = t >> 24, mixed = 0xff000000u;
    for (int shift = 0; shift < 24; shift += 8) {
        unsigned over = (t >> shift) & 255, under = (b >> shift) & 255;
        mixed |= ((over * alpha + under * (255 - alpha) + 127) / 255) << shift;
    }
    bottom[i] = mixed;
}
""",
    data=lambda rng: {
        "top": rng.integers(0, 2**32, 777, dtype=u32),
        "bottom": rng.integers(0, 2**32, 777, dtype=u32),
        "n": i32(777),
    },
    launch=Launch("blend", 7, 128, "top bottom n"),
    expect=lambda d: {"bottom": blended(d["top"].view(u8).reshape(-1, 4), d["bottom"].view(u8).reshape(-1, 4))},
)


def blended(top, bottom):
    """Bytes in the order of memory, alpha last."""
    alpha = top[:, 3:].astype(int)
    mixed = (top * alpha + bottom * (255 - alpha) + 127) // 255
    mixed[:, 3] = 255
    return mixed.astype(u8).view(u32).ravel()
