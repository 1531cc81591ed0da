"""Wrong answers to the *Now you* cells of chapter 04."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

WRONG = (
    *table(
        "04.there-and-back",
        Wrong(
            "sizes in elements",
            (("host.nbytes, kinds.cudaMemcpyDeviceToHost", "host.size, kinds.cudaMemcpyDeviceToHost"),),
            "correctness",
            "wrong values",
        ),
        Wrong(
            "not freed", (("    ok(cudart.cudaFree(pointer))\n", ""),), "efficiency", "allocations that are not freed"
        ),
        Wrong(
            "the host's address freed",
            (("ok(cudart.cudaFree(pointer))", "cudart.cudaFree(back.ctypes.data)"),),
            "efficiency",
            "allocations that are not freed",
        ),
        Wrong(
            "destination and source swapped",
            (("back.ctypes.data, pointer, host", "pointer, back.ctypes.data, host"),),
            "soundness",
            "cudaErrorInvalidValue",
        ),
        Wrong(
            "copied by the host",
            (),
            "efficiency",
            "bytes copied to the device, for each byte of the array",
            source="def there_and_back(host, ok):\n    return host.copy()\n",
        ),
        Wrong(
            "its argument",
            (),
            "correctness",
            "no array",
            source="def there_and_back(host, ok):\n    return host\n",
        ),
    ),
    *table(
        "04.count-above",
        Wrong(
            "the last left out",
            (("node != nullptr;", "node->next != nullptr;"),),
            "correctness",
            "wrong values",
            mistake="the last node is left out",
        ),
        Wrong(
            "all are counted",
            (("if (node->value > limit) ", ""),),
            "correctness",
            "wrong values",
            mistake="all nodes are counted",
        ),
        Wrong(
            "the limit counts, too",
            (("> limit", ">= limit"),),
            "correctness",
            "wrong values",
            mistake="a value that equals the limit is counted",
        ),
        Wrong(
            "only as long as nodes count",
            (("node != nullptr;", "node != nullptr && node->value > limit;"),),
            "correctness",
            "wrong values",
            mistake="the loop ends at the first node that does not count",
        ),
        Wrong(
            "an empty list has a node",
            (
                ("for (; node != nullptr; node = node->next)\n", "do {"),
                ("*found += 1;", "*found += 1; node = node->next; } while (node);"),
            ),
            "soundness",
            "null pointer",
        ),
    ),
    *table(
        "04.lengths",
        Wrong(
            "structs",
            (("p[i], y = p[n + i], z = p[2 * n + i]", "p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2]"),),
            "correctness",
            "wrong values",
            mistake="p is read as structs",
        ),
        Wrong("y and z swapped with x", (("p[2 * n + i]", "p[n + i]"),), "correctness", "wrong values"),
        Wrong(
            "right, but each thread takes a piece of its own",
            (
                ("    if (i >= n) return;\n", "    for (int j = 4 * i; j < 4 * i + 4 && j < n; j++) {\n"),
                ("p[i], y = p[n + i], z = p[2 * n + i]", "p[j], y = p[n + j], z = p[2 * n + j]"),
                ("out[i] = x * x + y * y + z * z;", "out[j] = x * x + y * y + z * z; }"),
            ),
            "efficiency",
            "sectors for each 128 bytes loaded",
        ),
    ),
    *table(
        "04.flatten",
        Wrong(
            "the pitch counts floats",
            (("(const float*)((const char*)base + r * pitch)", "base + r * pitch"),),
            "correctness",
            "wrong values",
            mistake="in bytes, is added to a float*",
        ),
        Wrong(
            "the pitch ignored",
            (("(const float*)((const char*)base + r * pitch)", "base + r * width"),),
            "correctness",
            "wrong values",
            mistake="as if there were no padding",
        ),
        Wrong(
            "the width rounded up to 512 bytes",
            (("r * pitch", "r * ((4 * width + 511) / 512 * 512)"),),
            "correctness",
            "wrong values",
        ),
    ),
    *table(
        "04.time-work",
        Wrong(
            "no wait behind the work",
            (("    work()\n    cp.cuda.Device().synchronize()\n", "    work()\n"),),
            "correctness",
            "wrong time",
        ),
        Wrong(
            "no wait before the work",
            (("    cp.cuda.Device().synchronize()\n    begin", "    begin"),),
            "correctness",
            "wrong time",
        ),
        Wrong(
            "the clock read behind the launches",
            (
                (
                    "    begin = cudalab.clock()\n    work()\n",
                    "    work()\n    begin = cudalab.clock()\n",
                ),
            ),
            "correctness",
            "wrong time",
        ),
        Wrong(
            "the mean of three",
            (("    work()\n", "    work(), work(), work()\n"), ("clock() - begin", "clock() / 3 - begin / 3")),
            "correctness",
            "not once",
        ),
        Wrong(
            "the waits changed places with the clock",
            (
                (
                    "    cp.cuda.Device().synchronize()\n    begin = cudalab.clock()\n",
                    "    begin = cudalab.clock()\n    cp.cuda.Device().synchronize()\n",
                ),
            ),
            "correctness",
            "wrong time",
        ),
    ),
)
