// <stdlib.h> for NVRTC, which declares malloc, free and abs by itself. The rest of it runs on the host only.
#pragma once
#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
