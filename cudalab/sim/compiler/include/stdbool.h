// <stdbool.h> for NVRTC: in C++ bool, true and false are keywords.
#pragma once
