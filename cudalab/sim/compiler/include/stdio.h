// <stdio.h> for NVRTC, which declares printf by itself. The rest of it runs on the host only.
#pragma once
#include <stddef.h>
