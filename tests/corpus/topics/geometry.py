"""Geometry: inside or outside, rays, hulls, contours, boxes."""

from ..kernel import Blank, Global, Launch, Near, f32, f64, i32, kernel, normal, np, u8, u32, whole

kernel(
    "point_in_polygon",
    "Crossings of a ray: the polygon in constant memory, edges joined last to first.",
    r"""
__constant__ float2 corner[9];
extern "C" __global__ void inside(const float2* points, bool* in, int n, int corners) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float2 p = points[i];
    bool odd = false;
    for (int a = 0, b = corners - 1; a < corners; b = a++) {
        if ((corner[a].y > p.y) != (corner[b].y > p.y)) {
            float cross = (corner[b].x - corner[a].x) *
                (p.y - corner[a].y) - (p.x - corner[a].x) * (corner[b].y - corner[a].y);
            odd ^= corner[b].y > corner[a].y ? cross > 0 : cross < 0;
        }
    }
    in[i] = odd;
}
""",
    data=lambda rng: {
        "points": whole(rng, -30, 30, 300, 2),
        "in": Blank(300, np.bool_),
        "n": i32(300),
        "corners": i32(9),
        "corner": Global(star()),
    },
    launch=Launch("inside", 3, 128, "points in n corners"),
    expect=lambda d: {"in": inside(d["points"].astype(f64), star().astype(f64))},
    features="constant vectors",
)


def star():
    angle = 2 * np.pi * np.arange(9) / 9
    return np.rint(np.where(np.arange(9) % 2, 13, 27)[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)).astype(
        f32
    )


def inside(points, corners):
    """By the x where each edge crosses the point's height; whole numbers, so nothing is rounded."""
    odd = np.zeros(len(points), bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, 1, 0), strict=True):
        spans = (ay > points[:, 1]) != (by > points[:, 1])
        left_of = (points[:, 0] - ax) * abs(by - ay) < (bx - ax) * (points[:, 1] - ay) * np.sign(by - ay)
        odd ^= spans & left_of
    return odd


kernel(
    "ray_sphere_nearest",
    "A picture by rays: structures in constant memory, small vector functions, the nearest hit wins.",
    r"""
struct Sphere { float x, y, z, radius; };
__constant__ Sphere scene[4];
struct Vec {
    float x, y, z;
    __device__ Vec(float a, float b, float c) : x(a), y(b), z(c) {}
    __device__ Vec operator-(const Vec& o) const { return Vec(x - o.x, y - o.y, z - o.z); }
    __device__ float dot(const Vec& o) const { return x * o.x + y * o.y + z * o.z; }
};
__device__ float hit(const Sphere& s, const Vec& origin, const Vec& way) {
    Vec to = Vec(s.x, s.y, s.z) - origin;
    float along = to.dot(way), square = way.dot(way);
    float inside = along * along - square * (to.dot(to) - s.radius * s.radius);
    return inside < 0 ? -1.f : (along - sqrtf(inside)) / square;
}
extern "C" __global__ void render(float* depth, int* which, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;  // guard
    Vec way((x - width / 2) / 16.f, (y - height / 2) / 16.f, 1.f);
    float nearest = 1e9f;
    int seen = -1;
    for (int s = 0; s < 4; s++) {
        float t = hit(scene[s], Vec(0, 0, 0), way);
        if (t > 0 && t < nearest) { nearest = t; seen = s; }
    }
    depth[y * width + x] = nearest;
    which[y * width + x] = seen;
}
""",
    data=lambda rng: {
        "depth": Blank((30, 41), f32),
        "which": Blank((30, 41), i32),
        "width": i32(41),
        "height": i32(30),
        "scene": Global(f32([[0, 0, 10, 3], [4, 1, 8, 2], [-5, -3, 12, 4], [1, 2, 6, 1]])),
    },
    launch=Launch("render", (6, 4), (8, 8), "depth which width height"),
    expect=lambda d: rendered(d["scene"].value.astype(f64)),
    rounding=Near(1e-4, 0, "float32 instead of double"),
    features="constant structs",
)


def rendered(scene):
    y, x = np.mgrid[0:30, 0:41]
    way = np.stack([(x - 20) / 16, (y - 15) / 16, np.ones((30, 41))], -1)
    along, square = way @ scene[:, :3].T, (way**2).sum(-1, keepdims=True)
    under = along**2 - square * ((scene[:, :3] ** 2).sum(1) - scene[:, 3] ** 2)
    t = np.where(under < 0, np.inf, (along - np.sqrt(np.maximum(under, 0))) / square)
    missed = np.isinf(t.min(-1))
    return {
        "depth": np.where(missed, 1e9, t.min(-1)).astype(f32),
        "which": np.where(missed, -1, t.argmin(-1)).astype(i32),
    }


kernel(
    "convex_hull_gift_wrap",
    "One step of gift wrapping a block: all points compete for the next corner in a reduction by orientation.",
    r"""
__device__ int further(const int2* p, int from, int a, int b) {
    if (a == from) return b;
    if (b == from) return a;
    long long cross = (long long)(p[a].x - p[from].x) * (p[b].y - p[from].y)
                    - (long long)(p[a].y - p[from].y) * (p[b].x - p[from].x);
    if (cross != 0) return cross < 0 ? b : a;
    long long da = (long long)(p[a].x - p[from].x) *
        (p[a].x - p[from].x) + (long long)(p[a].y - p[from].y) * (p[a].y - p[from].y);
    long long db = (long long)(p[b].x - p[from].x) *
        (p[b].x - p[from].x) + (long long)(p[b].y - p[from].y) * (p[b].y - p[from].y);
    return db > da ? b : a;
}
extern "C" __global__ void wrap(const int2* points, int n, int first, int* hull, int* corners) {
    __shared__ int candidate[64];
    int at = first, count = 0;
    do {
        if (threadIdx.x == 0) hull[count] = at;
        count++;
        int best = at;
        for (int i = threadIdx.x; i < n; i += 64) best = further(points, at, best, i);
        candidate[threadIdx.x] = best;
        __syncthreads();
        for (int half = 32; half > 0; half /= 2) {
            if (threadIdx.x < half)
                candidate[threadIdx.x] = further(points, at, candidate[threadIdx.x], candidate[threadIdx.x + half]);
            __syncthreads();
        }
        at = candidate[0];
        __syncthreads();
    } while (at != first);
    if (threadIdx.x == 0) *corners = count;
}
""",
    data=lambda rng: hull_data(rng.integers(-999, 999, (150, 2), dtype=i32)),
    launch=Launch("wrap", 1, 64, "points n first hull corners"),
    expect=lambda d: hull(d["points"]),
    features="shared vectors",
)


def hull_data(points):
    first = int(np.lexsort((points[:, 1], points[:, 0]))[0])
    return {
        "points": points,
        "n": i32(150),
        "first": i32(first),
        "hull": np.full(40, -1, i32),
        "corners": Blank(1, i32),
    }


def hull(points):
    """Andrew's monotone chain, counter-clockwise from the leftmost point."""
    order = [int(k) for k in np.lexsort((points[:, 1], points[:, 0]))]
    xy = points.tolist()

    def half(indices):
        chain = []
        for k in indices:
            while len(chain) > 1:
                (ax, ay), (bx, by), (cx, cy) = xy[chain[-2]], xy[chain[-1]], xy[k]
                if (bx - ax) * (cy - ay) - (by - ay) * (cx - ax) > 0:
                    break
                chain.pop()
            chain.append(k)
        return chain[:-1]

    corners = half(order) + half(order[::-1])
    return {"hull": np.pad(i32(corners), (0, 40 - len(corners)), constant_values=-1), "corners": i32([len(corners)])}


kernel(
    "marching_squares_cases",
    "Which edges does a contour cross in each cell? Four comparisons make the number of the case.",
    r"""
__constant__ unsigned char segments[16];
extern "C" __global__ void contour(const float* field, unsigned char* kind, unsigned* total, int rows, int columns,
        float level) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned mine = 0;
    if (x < columns - 1 && y < rows - 1) {  // guard
        const float* p = field + y * columns + x;
        int number = (p[0] > level) | (p[1] > level) << 1 | (p[columns + 1] > level) << 2 | (p[columns] > level) << 3;
        kind[y * (columns - 1) + x] = number;
        mine = segments[number];
    }
    mine = __reduce_add_sync(0xffffffff, mine);
    if ((threadIdx.y * blockDim.x + threadIdx.x) % 32 == 0 && mine) atomicAdd(total, mine);
}
""",
    data=lambda rng: {
        "field": normal(rng, 25, 35),
        "kind": Blank((24, 34), u8),
        "total": np.zeros(1, u32),
        "rows": i32(25),
        "columns": i32(35),
        "level": f32(0.2),
        "segments": Global(u8([0, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 0])),
    },
    launch=Launch("contour", (5, 4), (8, 8), "field kind total rows columns level"),
    expect=lambda d: contours(d["field"] > f32(0.2)),
    features="constant warp_reduce",
)


def contours(high):
    h = high.astype(u8)
    kind = h[:-1, :-1] | h[:-1, 1:] << 1 | h[1:, 1:] << 2 | h[1:, :-1] << 3
    crossings = abs(np.diff(h[:-1].astype(int))) + abs(np.diff(h[1:].astype(int)))
    crossings += abs(np.diff(h[:, :-1].astype(int), axis=0)) + abs(np.diff(h[:, 1:].astype(int), axis=0))
    return {"kind": kind, "total": u32([crossings.sum() // 2])}


kernel(
    "bounding_boxes_of_groups",
    "A box a group of triangles: minima and maxima of floats by ordered whole numbers and shared atomics.",
    r"""
__device__ int ordered(float v) {
    int bits = __float_as_int(v);
    return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
__device__ float unordered(int key) { return __int_as_float(key >= 0 ? key : key ^ 0x7fffffff); }
extern "C" __global__ void boxes(const float3* corners, const int* begin, float* box) {
    __shared__ int low[3], high[3];
    if (threadIdx.x < 3) {
        low[threadIdx.x] = 0x7fffffff;
        high[threadIdx.x] = 0x80000000;
    }
    __syncthreads();
    for (int i = begin[blockIdx.x] + threadIdx.x; i < begin[blockIdx.x + 1]; i += blockDim.x) {
        const float v[3] = {corners[i].x, corners[i].y, corners[i].z};
        for (int axis = 0; axis < 3; axis++) {
            atomicMin(&low[axis], ordered(v[axis]));
            atomicMax(&high[axis], ordered(v[axis]));
        }
    }
    __syncthreads();
    if (threadIdx.x < 6)
        box[blockIdx.x * 6 + threadIdx.x] = unordered(threadIdx.x < 3 ? low[threadIdx.x] : high[threadIdx.x - 3]);
}
""",
    data=lambda rng: {
        "corners": normal(rng, 200, 3),
        "begin": i32([0, 50, 51, 130, 200]),
        "box": Blank((4, 6), f32),
    },
    launch=Launch("boxes", 4, 48, "corners begin box"),
    expect=lambda d: {
        "box": np.array(
            [
                np.concatenate([d["corners"][a:b].min(0), d["corners"][a:b].max(0)])
                for a, b in zip(d["begin"], d["begin"][1:], strict=False)
            ]
        )
    },
    features="shared bit_casts vectors",
)
