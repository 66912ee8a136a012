// Multiplies blocks that lie scattered in memory, tile by tile in registers.
#include "kernels/cpu/products/block_tiles.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/products/lanes.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// Tiles are filled up to so many lanes.
constexpr int64_t kVector = 16;

// Rows of c that are summed in registers at once.
constexpr int kRows = 6;

// Where a block's factor and result lie: by pointers to rows of both,
struct ByRows {
  const float* const* a;
  int64_t a_offset;
  float* const* c;
  int64_t c_offset;
  const float* Element(int64_t i, int64_t p) const {
    return a[i] + a_offset + p;
  }
  float* Result(int64_t i) const { return c[i] + c_offset; }
};
// or by pointers to columns of the factor.
struct ByColumns {
  const float* const* a;
  float* c;
  int64_t c_stride;
  const float* Element(int64_t i, int64_t p) const { return a[p] + i; }
  float* Result(int64_t i) const { return c + i * c_stride; }
};

// Rows [first, first + kCount) of c; kVectors vectors of the tile, which are no
// wider than the processor's registers: wider ones, of which the compiler would
// make several, it keeps in memory, at a tenth of the speed. The sums are
// only touched one by one: with the address of two of them taken together the
// compiler keeps all in memory.
template <int kLanes, int kVectors, int kCount, typename Place>
COMERA_INLINE void Block(const Place& place, int64_t first, const Tile& tile,
                         bool accumulate) {
  using Vector = typename Lanes<kLanes>::Type;
  Vector sum[kCount][kVectors] = {};
  for (int64_t p = 0; p < tile.depth; ++p) {
    Vector row[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&row[v], tile.values + (p * kVectors + v) * kLanes,
                  sizeof(Vector));
    }
#pragma GCC unroll 6
    for (int i = 0; i < kCount; ++i) {
      const float value = *place.Element(first + i, p);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[i][v] += row[v] * value;
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kCount; ++i) {
    float* c = place.Result(first + i);
    if (tile.lanes == kVectors * kLanes) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        Vector out = sum[i][v];
        if (accumulate) {
          Vector old;
          std::memcpy(&old, c + v * kLanes, sizeof(old));
          out += old;
        }
        std::memcpy(c + v * kLanes, &out, sizeof(out));
      }
      continue;
    }
    float values[kVectors * kLanes];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const Vector out = sum[i][v];
      std::memcpy(values + v * kLanes, &out, sizeof(out));
    }
    if (accumulate) {
      for (int64_t e = 0; e < tile.lanes; ++e) c[e] += values[e];
    } else {
      for (int64_t e = 0; e < tile.lanes; ++e) c[e] = values[e];
    }
  }
}

template <int kLanes, int kVectors, typename Place>
COMERA_INLINE void Blocks(const Place& place, int64_t count, const Tile& tile,
                          bool accumulate) {
  int64_t i = 0;
  for (; i + kRows <= count; i += kRows) {
    Block<kLanes, kVectors, kRows>(place, i, tile, accumulate);
  }
  switch (count - i) {
    case 5:
      return Block<kLanes, kVectors, 5>(place, i, tile, accumulate);
    case 4:
      return Block<kLanes, kVectors, 4>(place, i, tile, accumulate);
    case 3:
      return Block<kLanes, kVectors, 3>(place, i, tile, accumulate);
    case 2:
      return Block<kLanes, kVectors, 2>(place, i, tile, accumulate);
    case 1:
      return Block<kLanes, kVectors, 1>(place, i, tile, accumulate);
    default:
      return;
  }
}

// Tiles of two vectors of 8, which fill the registers of AVX2, on any
// processor.
COMERA_CLONES
void Narrow(const ByRows& place, int64_t count, const Tile& tile,
            bool accumulate) {
  Blocks<8, 2>(place, count, tile, accumulate);
}
COMERA_CLONES
void Narrow(const ByColumns& place, int64_t count, const Tile& tile,
            bool accumulate) {
  Blocks<8, 2>(place, count, tile, accumulate);
}

#if defined(__x86_64__)
// Wider ones, where there are 32 registers of 16 lanes.
template <typename Place>
__attribute__((target("arch=x86-64-v4"))) void Wide(const Place& place,
                                                    int64_t count,
                                                    const Tile& tile,
                                                    bool accumulate) {
  if (tile.width == 2 * kVector) {
    Blocks<16, 2>(place, count, tile, accumulate);
  } else {
    Blocks<16, 3>(place, count, tile, accumulate);
  }
}
bool HasWide() {
  static const bool wide =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide;
}
#else
template <typename Place>
void Wide(const Place&, int64_t, const Tile&, bool) {}
bool HasWide() { return false; }
#endif

template <typename Place>
void Multiply(const Place& place, int64_t count, const Tile& tile,
              bool accumulate) {
  if (tile.width == kVector) {
    Narrow(place, count, tile, accumulate);
  } else {
    Wide(place, count, tile, accumulate);
  }
}

void Shape(int64_t depth, int64_t lanes, Tile* tile) {
  tile->depth = depth;
  tile->lanes = lanes;
  tile->width = (lanes + kVector - 1) / kVector * kVector;
  if (lanes < tile->width) {
    std::memset(tile->values, 0, depth * tile->width * sizeof(float));
  }
}

}  // namespace

int64_t LanesPerTile(int64_t cols) {
  const int64_t most = HasWide() ? kTileLanes : kVector;
  // Tiles of nearly equal size: 64 columns are 32 and 32, not 48 and 16.
  const int64_t tiles = std::max<int64_t>(1, (cols + most - 1) / most);
  return (cols + tiles * kVector - 1) / (tiles * kVector) * kVector;
}

void PackTile(const float* from, int64_t stride, int64_t depth, int64_t lanes,
              Tile* tile) {
  Shape(depth, lanes, tile);
  for (int64_t p = 0; p < depth; ++p) {
    std::memcpy(tile->values + p * tile->width, from + p * stride,
                lanes * sizeof(float));
  }
}

void PackTransposed(const float* from, int64_t stride, int64_t depth,
                    int64_t lanes, Tile* tile) {
  Shape(depth, lanes, tile);
  for (int64_t e = 0; e < lanes; ++e) {
    const float* column = from + e * stride;
    float* to = tile->values + e;
    for (int64_t p = 0; p < depth; ++p) to[p * tile->width] = column[p];
  }
}

void PackRows(const float* const* from, int64_t offset, int64_t depth,
              int64_t lanes, Tile* tile) {
  Shape(depth, lanes, tile);
  for (int64_t p = 0; p < depth; ++p) {
    std::memcpy(tile->values + p * tile->width, from[p] + offset,
                lanes * sizeof(float));
  }
}

void MultiplyRows(const float* const* a, int64_t a_offset, int64_t rows,
                  const Tile& tile, bool accumulate, float* const* c,
                  int64_t c_offset) {
  Multiply(ByRows{a, a_offset, c, c_offset}, rows, tile, accumulate);
}

void MultiplyColumns(const float* const* a, int64_t columns, const Tile& tile,
                     bool accumulate, float* c, int64_t c_stride) {
  Multiply(ByColumns{a, c, c_stride}, columns, tile, accumulate);
}

}  // namespace comera::kernels
