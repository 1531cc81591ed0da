"""Wrong answers to the *Now you* cells of chapter 05."""

from __future__ import annotations

from tests.checks.answers.answer import Wrong, table

_C = "correctness"

WRONG = (
    *table(
        "05.aside",
        Wrong(
            "returns what was asked for",
            (("return cudart.cudaDeviceGetLimit(kind)[1]", "return min(wanted, properties.persistingL2CacheMaxSize)"),),
            _C,
            "wrong values",
            mistake="what was asked for",
        ),
        Wrong(
            "the guide's fraction alone",
            (("properties.persistingL2CacheMaxSize", "int(0.75 * properties.l2CacheSize)"),),
            _C,
            "wrong set-aside",
        ),
        Wrong(
            "what one device sets aside at most",
            (("properties.persistingL2CacheMaxSize", "39321600"),),
            _C,
            "wrong set-aside",
        ),
        Wrong(
            "another limit",
            (("cudaLimitPersistingL2CacheSize", "cudaLimitMaxL2FetchGranularity"),),
            _C,
            "wrong set-aside",
        ),
        Wrong("the error as well", (("(kind)[1]", "(kind)"),), _C, "wrong shape"),
    ),
    *table(
        "05.window",
        Wrong("elements", (("array.nbytes", "array.size"),), _C, "wrong range", mistake="counts elements"),
        Wrong("four bytes each", (("array.nbytes", "4 * array.size"),), _C, "wrong range"),
        Wrong("normal", (("cudaAccessPropertyPersisting", "cudaAccessPropertyNormal"),), _C, "wrong property"),
        Wrong(
            "misses that persist: refused",
            (("cudaAccessPropertyStreaming", "cudaAccessPropertyPersisting"),),
            _C,
            "no window",
        ),
        Wrong("no address", (("array.data.ptr", "0"),), _C, "wrong range"),
    ),
    *table(
        "05.ratio",
        Wrong("turned round", (("20 / 50", "50 / 20"),), _C, "wrong values", mistake="turned round"),
        Wrong("percent", (("20 / 50", "40"),), _C, "wrong values", mistake="not percent"),
        Wrong("the rest", (("20 / 50", "30 / 50"),), _C, "wrong values"),
    ),
    *table(
        "05.passing",
        Wrong(
            "not cut", (("min(array.nbytes, properties.accessPolicyMaxWindowSize)", "array.nbytes"),), _C, "no window"
        ),
        Wrong(
            "cut to the set-aside",
            (("accessPolicyMaxWindowSize", "persistingL2CacheMaxSize"),),
            _C,
            "wrong range",
        ),
        Wrong(
            "hits persist",
            (
                (
                    "hitProp = cudart.cudaAccessProperty.cudaAccessPropertyStreaming",
                    "hitProp = cudart.cudaAccessProperty.cudaAccessPropertyPersisting",
                ),
            ),
            _C,
            "wrong property",
        ),
        Wrong(
            "half of it, the rest normal",
            (
                ("window.hitRatio = 1.0", "window.hitRatio = 0.5"),
                (
                    "missProp = cudart.cudaAccessProperty.cudaAccessPropertyStreaming",
                    "missProp = cudart.cudaAccessProperty.cudaAccessPropertyNormal",
                ),
            ),
            _C,
            "wrong ratio",
        ),
    ),
    *table(
        "05.finish",
        Wrong("no reset", (("    cudart.cudaCtxResetPersistingL2Cache()\n", ""),), _C, "persisting lines left"),
        Wrong(
            "the set-aside stays",
            (("    cudart.cudaDeviceSetLimit(cudart.cudaLimit.cudaLimitPersistingL2CacheSize, 0)", ""),),
            _C,
            "set-aside left",
        ),
        Wrong(
            "the window stays",
            (
                (
                    "cudart.cudaStreamSetAttribute(stream.ptr,",
                    "print(stream.ptr,",
                ),
            ),
            _C,
            "window left",
        ),
        Wrong("the window of another stream", (("(stream.ptr,", "(0,"),), _C, "window left"),
    ),
)
