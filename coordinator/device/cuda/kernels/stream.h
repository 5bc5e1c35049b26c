// Stream: an ordered queue of device work, as the CUDA runtime names it.
//
// A kernel header is plain C++, so that code without a CUDA compiler can call the launches; the type is the
// runtime's own, declared only (cudaStream_t is CUstream_st*).
#pragma once

struct CUstream_st;

namespace numoe::cuda {

using Stream = CUstream_st*;

}  // namespace numoe::cuda
