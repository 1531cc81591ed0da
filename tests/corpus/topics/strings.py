"""Text as bytes: searching, counting, distances, coding."""

import re
from base64 import b64encode

from ..kernel import Blank, Global, Launch, i32, kernel, np, u8, u32

TEXT = b"the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs, said the fox. "


def letters(rng, n, alphabet=b"abc "):
    return rng.choice(np.frombuffer(alphabet, u8), n)


kernel(
    "substring_count",
    "Does the pattern begin here? Each thread looks; the block's votes are counted at a barrier.",
    r"""
__constant__ char pattern[8];
extern "C" __global__ void count_pattern(const char* text, int n, int length, int* total, unsigned char* starts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool here = i + length <= n;
    for (int k = 0; here && k < length; k++) here = text[i + k] == pattern[k];
    if (i < n) starts[i] = here;  // guard
    int in_block = __syncthreads_count(here);
    if (threadIdx.x == 0 && in_block) atomicAdd(total, in_block);
}
""",
    data=lambda rng: {
        "text": np.frombuffer(TEXT * 6, np.int8),
        "n": i32(len(TEXT) * 6),
        "length": i32(3),
        "total": np.zeros(1, i32),
        "starts": Blank(len(TEXT) * 6, u8),
        "pattern": Global(np.frombuffer(b"fox\0\0\0\0\0", np.int8)),
    },
    launch=Launch("count_pattern", 5, 128, "text n length total starts"),
    expect=lambda d: (
        lambda t: {
            "total": i32([t.count(b"fox")]),
            "starts": np.array([t[k : k + 3] == b"fox" for k in range(len(t))], u8),
        }
    )(d["text"].tobytes()),
    features="constant barrier_reduction",
)

kernel(
    "levenshtein_antidiagonal",
    "Edit distance: cells of an anti-diagonal do not depend on each other; three diagonals rotate in shared memory.",
    r"""
extern "C" __global__ void levenshtein(const unsigned char* words, const int* starts, const unsigned char* other,
        int m, int* distance) {
    __shared__ int diagonal[3][40];
    const unsigned char* a = words + starts[blockIdx.x];
    int n = starts[blockIdx.x + 1] - starts[blockIdx.x], i = threadIdx.x;
    for (int d = 0; d <= n + m; d++) {
        int* now = diagonal[d % 3];
        const int* last = diagonal[(d + 2) % 3];
        const int* before = diagonal[(d + 1) % 3];
        int j = d - i;
        if (i <= n && j >= 0 && j <= m) {  // guard
            if (i == 0) now[i] = j;
            else if (j == 0) now[i] = i;
            else {
                int change = before[i - 1] + (a[i - 1] != other[j - 1]);
                now[i] = min(change, 1 + min(last[i - 1], last[i]));
            }
        }
        __syncthreads();
    }
    if (i == n) *(distance + blockIdx.x) = diagonal[(n + m) % 3][n];
}
""",
    data=lambda rng: {
        "words": letters(rng, 150),
        "starts": i32([0, 30, 31, 31, 60, 99, 120, 150]),
        "other": letters(rng, 27),
        "m": i32(27),
        "distance": Blank(7, i32),
    },
    launch=Launch("levenshtein", 7, 40, "words starts other m distance"),
    expect=lambda d: {
        "distance": i32(
            [
                edits(d["words"][a:b].tobytes(), d["other"].tobytes())
                for a, b in zip(d["starts"], d["starts"][1:], strict=False)
            ]
        )
    },
    features="shared",
)


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(last + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


kernel(
    "base64_encode",
    "Three bytes become four letters, a thread a group; the last group is filled with equal signs.",
    r"""
__device__ const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
extern "C" __global__ void base64(const unsigned char* in, uchar4* out, int bytes) {
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    int first = 3 * group;
    if (first >= bytes) return;  // guard
    unsigned word = in[first] << 16;
    if (first + 1 < bytes) word |= in[first + 1] << 8;  // guard
    if (first + 2 < bytes) word |= in[first + 2];  // guard
    uchar4 letters;
    letters.x = alphabet[word >> 18];
    letters.y = alphabet[word >> 12 & 63];
    letters.z = first + 1 < bytes ? alphabet[word >> 6 & 63] : '=';
    letters.w = first + 2 < bytes ? alphabet[word & 63] : '=';
    out[group] = letters;
}
""",
    data=lambda rng: {"in": rng.integers(0, 256, 400, dtype=u8), "out": Blank(134 * 4, u8), "bytes": i32(400)},
    launch=Launch("base64", 3, 64, "in out bytes"),
    expect=lambda d: {"out": np.frombuffer(b64encode(d["in"].tobytes()), u8)},
    features="device_globals vectors",
)

kernel(
    "run_length_encode",
    "Heads of runs are flagged and counted; each head writes its value and where it begins.",
    r"""
extern "C" __global__ void run_lengths(const unsigned char* in, unsigned char* values, int* starts, int* runs, int n) {
    __shared__ int sums[1024];
    int t = threadIdx.x;
    bool head = t < n && (t == 0 || in[t] != in[t - 1]);
    sums[t] = head;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        int left = t >= d ? sums[t - d] : 0;
        __syncthreads();
        sums[t] += left;
        __syncthreads();
    }
    if (head) {
        values[sums[t] - 1] = in[t];
        starts[sums[t] - 1] = t;
    }
    if (t == blockDim.x - 1) {
        *runs = sums[t];
        starts[sums[t]] = n;
    }
}
""",
    data=lambda rng: {
        "in": np.sort(rng.integers(0, 9, 700, dtype=u8)) // 2 + (rng.random(700) < 0.02).astype(u8),
        "values": np.zeros(200, u8),
        "starts": np.zeros(200, i32),
        "runs": Blank(1, i32),
        "n": i32(700),
    },
    launch=Launch("run_lengths", 1, 768, "in values starts runs n"),
    expect=lambda d: runs(d["in"]),
    features="shared",
)


def runs(x):
    heads = np.concatenate([[0], np.nonzero(np.diff(x))[0] + 1])
    values, starts = np.zeros(200, u8), np.zeros(200, i32)
    values[: len(heads)] = x[heads]
    starts[: len(heads)] = heads
    starts[len(heads)] = len(x)
    return {"values": values, "starts": starts, "runs": i32([len(heads)])}


kernel(
    "word_count_by_length",
    "A word begins at a letter after something else; its length goes into a histogram. Character classes by range.",
    r"""
__device__ __forceinline__ bool is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
extern "C" __global__ void words(const char* __restrict__ text, unsigned* lengths, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (!is_letter(text[i]) || (i > 0 && is_letter(text[i - 1]))) continue;
        int end = i + 1;
        while (end < n && is_letter(text[end])) ++end;
        atomicAdd(&lengths[min(end - i, 15)], 1u);
    }
}
""",
    data=lambda rng: {
        "text": np.frombuffer((TEXT + TEXT.title()) * 3, np.int8),
        "lengths": np.zeros(16, u32),
        "n": i32(len(TEXT) * 6),
    },
    launch=Launch("words", 2, 96, "text lengths n"),
    expect=lambda d: {
        "lengths": np.bincount(
            [min(15, len(w)) for w in re.findall(rb"[A-Za-z]+", d["text"].tobytes())], minlength=16
        ).astype(u32)
    },
)

kernel(
    "caesar_in_words",
    "Four letters at once in a register: SIMD instructions on bytes compare and add.",
    r"""
extern "C" __global__ void upper_case(unsigned* text, int words) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= words) return;  // guard
    unsigned four = text[i];
    unsigned small = __vcmpgeu4(four, 0x61616161u) & __vcmpleu4(four, 0x7a7a7a7au);
    text[i] = __vsub4(four, small & 0x20202020u);
}
""",
    data=lambda rng: {"text": np.frombuffer(TEXT, u32), "words": i32(len(TEXT) // 4)},
    launch=Launch("upper_case", 1, 64, "text words"),
    expect=lambda d: {"text": np.frombuffer(d["text"].tobytes().upper(), u32)},
    features="simd_in_word",
)

kernel(
    "parse_decimal_numbers",
    "Lines of digits become numbers: a thread a line, signs and empty lines included.",
    r"""
extern "C" __global__ void parse(const char* text, const int* line, long long* value, int lines) {
    int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= lines) return;  // guard
    const char* p = text + line[l];
    const char* end = text + line[l + 1] - 1;
    bool negative = p < end && *p == '-';
    p += negative;
    long long sum = 0;
    for (; p != end; ++p) sum = 10 * sum + (*p - '0');
    value[l] = negative ? -sum : sum;
}
""",
    data=lambda rng: lines_of(rng.integers(-(10**12), 10**12, 70)),
    launch=Launch("parse", 2, 48, "text line value lines"),
    expect=lambda d: {"value": np.array([int(t or 0) for t in d["text"].tobytes().decode().split("\n")[:-1]])},
)


def lines_of(numbers):
    rows = [str(v) + "\n" for v in numbers // 10 ** (np.arange(70) % 12)]
    rows[5] = "\n"
    return {
        "text": np.frombuffer("".join(rows).encode(), np.int8),
        "line": np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(i32),
        "value": Blank(70, np.int64),
        "lines": i32(70),
    }


kernel(
    "rolling_hash_windows",
    "The hash of every window: a thread rolls over a stretch, so that it hashes its first window only once.",
    r"""
extern "C" __global__ void rolling(const unsigned char* text, unsigned* hashes, int n, int window, int stretch) {
    const unsigned B = 257;
    int begin = (blockIdx.x * blockDim.x + threadIdx.x) * stretch, count = n - window + 1;
    if (begin >= count) return;  // guard
    unsigned h = 0, leading = 1;
    for (int k = 0; k < window; k++) h = h * B + text[begin + k];
    for (int k = 1; k < window; k++) leading *= B;
    hashes[begin] = h;
    for (int i = begin + 1; i < min(begin + stretch, count); i++) {
        h = (h - leading * text[i - 1]) * B + text[i + window - 1];
        hashes[i] = h;
    }
}
""",
    data=lambda rng: {
        "text": letters(rng, 500),
        "hashes": Blank(490, u32),
        "n": i32(500),
        "window": i32(11),
        "stretch": i32(7),
    },
    launch=Launch("rolling", 3, 32, "text hashes n window stretch"),
    expect=lambda d: {
        "hashes": np.array(
            [sum(int(c) * 257 ** (10 - k) for k, c in enumerate(d["text"][s : s + 11])) % 2**32 for s in range(490)],
            u32,
        )
    },
)
