"""``printf`` on the device: formats, arguments, order within a thread, what it returns, when it comes out."""

import numpy as np

from cudalab import cp

from ..program import printed, program


def output(source, *args, grid=(1,), block=(1,)):
    with printed() as out:
        cp.RawKernel(source, "k")(grid, block, args)
        cp.cuda.Device().synchronize()
    return out.text


@program("integer formats: signs, widths, zeros, hexadecimal, octal, long long, characters")
def integer_formats():
    return {
        "text": output(
            r"""
            extern "C" __global__ void k(int n, long long big, unsigned char c) {
                printf("[%d] [%i] [%u] [%x] [%X] [%o]\n", n, -n, n, n, n, n);
                printf("[%8d] [%-8d] [%08d] [%+d] [% d] [%#x]\n", n, n, n, n, n, n);
                printf("[%lld] [%llu] [%llx] [%ld]\n", big, big, big, (long)big);
                printf("[%c] [%5c] [%d] [%hd]\n", c, c, c, (short)n);
                printf("%% 100%%\n");
                printf("no newline;");
                printf("\n");
            }""",
            np.int32(1234),
            np.int64(-(2**40) - 5),
            np.uint8(65),
        )
    }


@program("float formats: fixed, scientific, shortest, precision, infinities and NaN")
def float_formats():
    return {
        "text": output(
            r"""
            extern "C" __global__ void k(double d, float f, double zero) {
                printf("[%f] [%e] [%g] [%G]\n", d, d, d, d);
                printf("[%.2f] [%10.3f] [%-10.1f] [%+.0f] [%010.2f]\n", d, d, d, d, d);
                printf("[%f] [%.10g] [%g] [%g]\n", f, f, 1e-5 * d, 1e20 * d);
                printf("[%f] [%f] [%g] [%d]\n", 1 / zero, -1 / zero, 0.0, 7);
                printf("[%a]\n", 1.5 + zero);
            }""",
            3.14159265358979,
            np.float32(0.1),
            0.0,
        )
    }


@program("strings: literals, from constant memory, from memory written by the kernel, with width")
def string_arguments():
    return {
        "text": output(
            r"""
            __constant__ char word[] = "constant";
            __device__ char written[8];
            extern "C" __global__ void k(int n) {
                for (int i = 0; i < 5; ++i) written[i] = 'a' + i + n;
                written[5] = 0;
                printf("%s %s %s [%10s] [%-6s]| %s\n", "literal", word, written, written, written, n ? "yes" : "no");
            }""",
            np.int32(1),
        )
    }


@program("each thread's lines come whole and in its order; lines of many threads")
def many_threads():
    text = output(
        r"""
        extern "C" __global__ void k() {
            for (int i = 0; i < 3; ++i) printf("%d %d %d\n", blockIdx.x, threadIdx.x, i);
        }""",
        grid=(2,),
        block=(40,),
    )
    rows = [tuple(int(x) for x in line.split()) for line in text.splitlines()]
    in_order = all([row[2] for row in rows if row[:2] == (b, t)] == [0, 1, 2] for b in range(2) for t in range(40))
    return {"rows": np.array(sorted(rows), np.int32), "in order": in_order}


@program("printf returns the number of its arguments")
def return_values():
    with printed() as out:
        result = cp.zeros(3, cp.int32)
        cp.RawKernel(
            r"""
            extern "C" __global__ void k(int* r) {
                r[0] = printf("plain\n"); r[1] = printf("%d\n", 5); r[2] = printf("%d %s %f\n", 1, "two", 3.0);
            }""",
            "k",
        )((1,), (1,), (result,))
        cp.cuda.Device().synchronize()
    return {"result": result, "text": out.text}


@program("threads of a warp that print in a branch, and up to 32 arguments")
def branches_and_many_arguments():
    text = output(
        r"""
        extern "C" __global__ void k() {
            int i = threadIdx.x;
            if (i % 8 == 3) printf("lane %d of %s %llu\n", i, i > 16 ? "upper" : "lower", 1ull << i);
            __syncthreads();
            if (i == 0) printf("%d %d %d %d %d %d %d %d %d %d %d %d %c %f %s %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
            12, 'x', 1.25,
                               "end", i);
        }""",
        block=(32,),
    )
    lines = text.splitlines()
    return {"lanes": sorted(lines[:-1]), "last": lines[-1]}
