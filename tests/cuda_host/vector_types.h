// CUDA's built-in vector types for code that is compiled without the CUDA toolkit.
//
// They have the same names, sizes, alignment and make_ functions as in CUDA's vector_types.h (CUDA C++
// programming guide, "Built-in Vector Types"): a kernel that casts a pointer to uint4* makes a 16-byte
// access, so the types have the same alignment here, and UBSan reports misaligned addresses. The names are
// global on purpose, as kernels expect.
#pragma once

#include <cstdint>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_blocks = 1, unsigned y_blocks = 1, unsigned z_blocks = 1)
      : x(x_blocks), y(y_blocks), z(z_blocks) {}
};

struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(4) ushort2 {
  uint16_t x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline ushort2 make_ushort2(uint16_t x, uint16_t y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
