// texture.h: fetches from textures by their handles, in the words of PTX. A fetch answers four components of 32 bits;
// the type that is asked for takes as many of them as it has.
#pragma once
#include "language.h"

using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;

#define WARPSCHOOL_FETCH static __inline__ __attribute__((always_inline, device, nodebug)) T

template <class T> struct warpschool_texel;
#define WARPSCHOOL_TEXEL(scalar, wide, type1, type2, type4)                                                            \
  template <> struct warpschool_texel<scalar> {                                                                        \
    using component = wide;                                                                                            \
    WARPSCHOOL_DEVICE scalar of(wide x, wide, wide, wide) { return (scalar)x; }                                        \
  };                                                                                                                   \
  template <> struct warpschool_texel<type1> {                                                                         \
    using component = wide;                                                                                            \
    WARPSCHOOL_DEVICE type1 of(wide x, wide, wide, wide) { return {(scalar)x}; }                                       \
  };                                                                                                                   \
  template <> struct warpschool_texel<type2> {                                                                         \
    using component = wide;                                                                                            \
    WARPSCHOOL_DEVICE type2 of(wide x, wide y, wide, wide) { return {(scalar)x, (scalar)y}; }                          \
  };                                                                                                                   \
  template <> struct warpschool_texel<type4> {                                                                         \
    using component = wide;                                                                                            \
    WARPSCHOOL_DEVICE type4 of(wide x, wide y, wide z, wide w) {                                                       \
      return {(scalar)x, (scalar)y, (scalar)z, (scalar)w};                                                             \
    }                                                                                                                  \
  };
WARPSCHOOL_TEXEL(float, float, float1, float2, float4)
WARPSCHOOL_TEXEL(int, int, int1, int2, int4)
WARPSCHOOL_TEXEL(unsigned int, unsigned int, uint1, uint2, uint4)
WARPSCHOOL_TEXEL(short, int, short1, short2, short4)
WARPSCHOOL_TEXEL(unsigned short, unsigned int, ushort1, ushort2, ushort4)
WARPSCHOOL_TEXEL(signed char, int, char1, char2, char4)
WARPSCHOOL_TEXEL(unsigned char, unsigned int, uchar1, uchar2, uchar4)
#undef WARPSCHOOL_TEXEL

// One fetch for each kind of component that PTX knows.
#define WARPSCHOOL_TEX_KIND(kind, letter, component)                                                                   \
  WARPSCHOOL_DEVICE void warpschool_fetch(component *v, cudaTextureObject_t t, int x) {                                \
    asm volatile("tex.1d.v4." kind ".s32 {%0, %1, %2, %3}, [%4, {%5}];"                                                \
                 : letter(v[0]), letter(v[1]), letter(v[2]), letter(v[3]) : "l"(t), "r"(x));                           \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void warpschool_tex1(component *v, cudaTextureObject_t t, float x) {                               \
    asm volatile("tex.1d.v4." kind ".f32 {%0, %1, %2, %3}, [%4, {%5}];"                                                \
                 : letter(v[0]), letter(v[1]), letter(v[2]), letter(v[3]) : "l"(t), "f"(x));                           \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void warpschool_tex2(component *v, cudaTextureObject_t t, float x, float y) {                      \
    asm volatile("tex.2d.v4." kind ".f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"                                            \
                 : letter(v[0]), letter(v[1]), letter(v[2]), letter(v[3]) : "l"(t), "f"(x), "f"(y));                   \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void warpschool_tex3(component *v, cudaTextureObject_t t, float x, float y, float z) {             \
    asm volatile("tex.3d.v4." kind ".f32 {%0, %1, %2, %3}, [%4, {%5, %6, %7, %7}];"                                    \
                 : letter(v[0]), letter(v[1]), letter(v[2]), letter(v[3]) : "l"(t), "f"(x), "f"(y), "f"(z));           \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void warpschool_layer1(component *v, cudaTextureObject_t t, float x, int layer) {                  \
    asm volatile("tex.a1d.v4." kind ".f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"                                           \
                 : letter(v[0]), letter(v[1]), letter(v[2]), letter(v[3]) : "l"(t), "r"(layer), "f"(x));               \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void warpschool_layer2(component *v, cudaTextureObject_t t, float x, float y, int layer) {         \
    asm volatile("tex.a2d.v4." kind ".f32 {%0, %1, %2, %3}, [%4, {%5, %6, %7, %7}];"                                   \
                 : letter(v[0]), letter(v[1]), letter(v[2]), letter(v[3]) : "l"(t), "r"(layer), "f"(x), "f"(y));       \
  }
WARPSCHOOL_TEX_KIND("f32", "=f", float)
WARPSCHOOL_TEX_KIND("s32", "=r", int)
WARPSCHOOL_TEX_KIND("u32", "=r", unsigned int)
#undef WARPSCHOOL_TEX_KIND

#define WARPSCHOOL_TEXTURE(fetch, ...)                                                                                 \
  typename warpschool_texel<T>::component v[4];                                                                        \
  fetch(v, t, __VA_ARGS__);                                                                                            \
  return warpschool_texel<T>::of(v[0], v[1], v[2], v[3]);
template <class T> WARPSCHOOL_FETCH tex1Dfetch(cudaTextureObject_t t, int x) {
  WARPSCHOOL_TEXTURE(warpschool_fetch, x)
}
template <class T> WARPSCHOOL_FETCH tex1D(cudaTextureObject_t t, float x) {
  WARPSCHOOL_TEXTURE(warpschool_tex1, x)
}
template <class T> WARPSCHOOL_FETCH tex2D(cudaTextureObject_t t, float x, float y) {
  WARPSCHOOL_TEXTURE(warpschool_tex2, x, y)
}
template <class T> WARPSCHOOL_FETCH tex3D(cudaTextureObject_t t, float x, float y, float z) {
  WARPSCHOOL_TEXTURE(warpschool_tex3, x, y, z)
}
template <class T> WARPSCHOOL_FETCH tex1DLayered(cudaTextureObject_t t, float x, int layer) {
  WARPSCHOOL_TEXTURE(warpschool_layer1, x, layer)
}
template <class T> WARPSCHOOL_FETCH tex2DLayered(cudaTextureObject_t t, float x, float y, int layer) {
  WARPSCHOOL_TEXTURE(warpschool_layer2, x, y, layer)
}
#undef WARPSCHOOL_TEXTURE
#undef WARPSCHOOL_FETCH
