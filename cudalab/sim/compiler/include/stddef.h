// <stddef.h> for NVRTC, which declares size_t, ptrdiff_t and NULL by itself.
#pragma once

#ifndef offsetof
#define offsetof(type, member) ((size_t) & ((type*)0)->member)
#endif
typedef decltype(nullptr) nullptr_t;
