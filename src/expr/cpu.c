// What this machine can execute.

#include "expr/kernels.h"

bool nsi_cpu_has_avx2_fma(void) {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

const nsi_kernels* nsi_kernels_best(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_kernels_avx2;
#endif
    return &nsi_kernels_generic;
}
