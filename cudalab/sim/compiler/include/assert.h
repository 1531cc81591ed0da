// <assert.h> for NVRTC, which declares assert by itself. Included again, it follows NDEBUG anew, as C has it.
#ifdef NDEBUG
#undef assert
#define assert(condition) ((void)0)
#endif
