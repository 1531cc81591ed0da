// <string.h> for NVRTC, which declares memcpy and memset by itself. The rest of it runs on the host only.
#pragma once
#include <stddef.h>
