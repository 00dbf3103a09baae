// cudaTypedefs.h: types of pointers to those functions of the driver that programs with tensor maps ask for; device code calls none.
#ifndef CUDATYPEDEFS_H
#define CUDATYPEDEFS_H
#include "cuda.h"

using PFN_cuTensorMapEncodeTiled_v12000 = CUresult (*)(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
using PFN_cuTensorMapEncodeIm2col_v12000 = CUresult (*)(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t,
    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
using PFN_cuTensorMapReplaceAddress_v12000 = CUresult (*)(CUtensorMap*, void*);
using PFN_cuTensorMapEncodeTiled = PFN_cuTensorMapEncodeTiled_v12000;
using PFN_cuTensorMapEncodeIm2col = PFN_cuTensorMapEncodeIm2col_v12000;
using PFN_cuTensorMapReplaceAddress = PFN_cuTensorMapReplaceAddress_v12000;

#endif
