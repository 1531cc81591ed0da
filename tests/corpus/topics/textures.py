"""Textures and surfaces: addressing at edges, filtering, writing to arrays."""

from ..kernel import Blank, Launch, Surface, Texture, f32, i32, kernel, np, u8, whole

kernel(
    "texture_clamped_laplacian",
    "Reads past the edge are clamped by the texture unit: no guard for neighbours is needed.",
    r"""
extern "C" __global__ void laplacian(cudaTextureObject_t image, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;  // guard
    float u = x + 0.5f, v = y + 0.5f;
    out[y * width + x] = tex2D<float>(image, u - 1, v) + tex2D<float>(image, u + 1, v) + tex2D<float>(image, u, v - 1)
                       + tex2D<float>(image, u, v + 1) - 4 * tex2D<float>(image, u, v);
}
""",
    data=lambda rng: {
        "image": Texture(whole(rng, 0, 99, 21, 37)),
        "out": Blank((21, 37), f32),
        "width": i32(37),
        "height": i32(21),
    },
    launch=Launch("laplacian", (3, 3), (16, 8), "image out width height"),
    expect=lambda d: (lambda p: {"out": p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1] - 4 * p[1:-1, 1:-1]})(
        np.pad(d["image"].value, 1, mode="edge")
    ),
    features="textures",
)

kernel(
    "texture_filtered_zoom",
    "Linear filtering with weights of eight bits: places on multiples of 1/256 are exact.",
    r"""
extern "C" __global__ void zoom(cudaTextureObject_t image, float* out, int width, int height, float step) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)  // guard
        out[y * width + x] = tex2D<float>(image, 0.5f + step * x, 0.5f + step * y);
}
""",
    data=lambda rng: {
        "image": Texture(whole(rng, 0, 64, 9, 12), linear=True),
        "out": Blank((33, 45), f32),
        "width": i32(45),
        "height": i32(33),
        "step": f32(0.25),
    },
    launch=Launch("zoom", (3, 5), (16, 8), "image out width height step"),
    expect=lambda d: {"out": zoomed(d["image"].value, 33, 45)},
    features="textures",
)


def zoomed(image, rows, columns):
    y, x = np.arange(rows) / 4, np.arange(columns) / 4
    along = np.array([np.interp(x, np.arange(image.shape[1]), line) for line in image])
    return np.array([np.interp(y, np.arange(image.shape[0]), line) for line in along.T]).T.astype(f32)


kernel(
    "texture_wrapped_pattern",
    "Normalised coordinates that wrap: a small pattern is tiled over a large area; bytes come as fractions.",
    r"""
extern "C" __global__ void wallpaper(cudaTextureObject_t pattern, unsigned char* out, int width, int height) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < width * height; i += gridDim.x * blockDim.x) {
        float u = (i % width + 0.5f) / 8 - 3, v = (i / width + 0.5f) / 8;
        out[i] = (unsigned char)(tex2D<float>(pattern, u, v) * 255 + 0.5f);
    }
}
""",
    data=lambda rng: {
        "pattern": Texture(rng.integers(0, 256, (8, 8), dtype=u8), mode=0, normalised=True, fractions=True),
        "out": Blank((19, 30), u8),
        "width": i32(30),
        "height": i32(19),
    },
    launch=Launch("wallpaper", 3, 96, "pattern out width height"),
    expect=lambda d: {"out": np.tile(d["pattern"].value, (3, 4))[:19, :30]},
    features="textures",
)

kernel(
    "texture_lookup_1d",
    "A function as a table: a filtered one-dimensional texture interpolates between its points.",
    r"""
extern "C" __global__ void tabulated(cudaTextureObject_t table, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1D<float>(table, x[i] + 0.5f);  // guard
}
""",
    data=lambda rng: {
        "table": Texture(whole(rng, -512, 512, 33), linear=True),
        "x": (rng.integers(-300, 33 * 256, 200) / 256).astype(f32),
        "y": Blank(200, f32),
        "n": i32(200),
    },
    launch=Launch("tabulated", 2, 128, "table x y n"),
    expect=lambda d: {"y": np.interp(d["x"].clip(0), np.arange(33), d["table"].value).astype(f32)},
    features="textures",
)

kernel(
    "texture_volume_slice",
    "A slice through a volume: three-dimensional texture, nearest texel, outside is the border's zero.",
    r"""
extern "C" __global__ void slice(cudaTextureObject_t volume, int* out, int width, int height, float tilt) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;  // guard
    out[y * width + x] = tex3D<int>(volume, x + 0.5f, y + 0.5f, tilt * x + 0.5f);
}
""",
    data=lambda rng: {
        "volume": Texture(rng.integers(1, 10**6, (7, 11, 15), dtype=i32), mode=3),
        "out": Blank((13, 20), i32),
        "width": i32(20),
        "height": i32(13),
        "tilt": f32(0.5),
    },
    launch=Launch("slice", (3, 2), (8, 8), "volume out width height tilt"),
    expect=lambda d: {"out": sliced(d["volume"].value)},
    features="textures",
)


def sliced(volume):
    y, x = np.mgrid[0:13, 0:20]
    z = (0.5 * x + 0.5).astype(int)
    inside = (y < 11) & (x < 15) & (z < 7)
    return np.where(inside, volume[z.clip(0, 6), y.clip(0, 10), x.clip(0, 14)], 0).astype(i32)


kernel(
    "surface_write_rotate",
    "A surface is written by byte offsets: a picture turned by a quarter goes into a CUDA array.",
    r"""
extern "C" __global__ void quarter_turn(cudaTextureObject_t in, cudaSurfaceObject_t out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {  // guard
        float value = tex2D<float>(in, height - 1 - y + 0.5f, x + 0.5f);
        surf2Dwrite(value, out, x * (int)sizeof(float), y);
    }
}
""",
    data=lambda rng: {
        "in": Texture(whole(rng, -99, 99, 18, 27)),
        "out": Surface(np.zeros((27, 18), f32)),
        "width": i32(18),
        "height": i32(27),
    },
    launch=Launch("quarter_turn", (3, 4), (8, 8), "in out width height"),
    expect=lambda d: {"out": np.rot90(d["in"].value)},
    features="textures surfaces",
)

kernel(
    "surface_read_modify_write",
    "A surface may be read and written: one thread a texel; reads outside give zero where asked for.",
    r"""
extern "C" __global__ void brighten(cudaSurfaceObject_t image, unsigned* sums, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned char tone = surf2Dread<unsigned char>(image, x, y, cudaBoundaryModeZero);
    if (x < width && y < height)  // guard
        surf2Dwrite((unsigned char)min(255, tone + 40), image, x, y);
    unsigned sum = __reduce_add_sync(0xffffffff, (unsigned)tone);
    if (threadIdx.x == 0) atomicAdd(&sums[y / 8], sum);
}
""",
    data=lambda rng: {
        "image": Surface(rng.integers(0, 256, (21, 45), dtype=u8)),
        "sums": np.zeros(3, np.uint32),
        "width": i32(45),
        "height": i32(21),
    },
    launch=Launch("brighten", (2, 6), (32, 4), "image sums width height"),
    expect=lambda d: {
        "image": np.minimum(255, d["image"].value.astype(int) + 40).astype(u8),
        "sums": np.add.reduceat(d["image"].value.sum(1), [0, 8, 16]).astype(np.uint32),
    },
    features="surfaces warp_reduce",
)
