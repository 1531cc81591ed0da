// <time.h> for NVRTC, which declares clock and clock_t by itself. The rest of it runs on the host only.
#pragma once
#include <stddef.h>
