// Register-blocked products for blocks that lie scattered in memory: a tile of
// one factor is packed once and meets the rows of many blocks of the other.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_BLOCK_TILES_H_
#define COMERA_KERNELS_CPU_PRODUCTS_BLOCK_TILES_H_

#include <cstdint>

namespace comera::kernels {

inline constexpr int64_t kTileDepth = 128;
inline constexpr int64_t kTileLanes = 48;

// (depth, lanes) floats, each row filled up with zeros to whole vectors. Stays
// in the nearest cache.
struct Tile {
  int64_t depth = 0, lanes = 0;
  int64_t width = 0;  // distance of rows
  alignas(64) float values[kTileDepth * kTileLanes];
};

// Lanes of the tiles that `cols` columns should be cut into on this processor,
// so that the sums of a register block stay in registers; at most kTileLanes.
int64_t LanesPerTile(int64_t cols);

// tile (p, e) = from[p * stride + e].
void PackTile(const float* from, int64_t stride, int64_t depth, int64_t lanes,
              Tile* tile);
// tile (p, e) = from[e * stride + p].
void PackTransposed(const float* from, int64_t stride, int64_t depth,
                    int64_t lanes, Tile* tile);
// tile (p, e) = from[p][offset + e].
void PackRows(const float* const* from, int64_t offset, int64_t depth,
              int64_t lanes, Tile* tile);

// c[i][c_offset + e] (+)= sum over p of a[i][a_offset + p] tile(p, e), i below
// `rows`. The rows c[i] must be distinct.
void MultiplyRows(const float* const* a, int64_t a_offset, int64_t rows,
                  const Tile& tile, bool accumulate, float* const* c,
                  int64_t c_offset);
// c[i * c_stride + e] (+)= sum over p of a[p][i] tile(p, e), i below `columns`.
void MultiplyColumns(const float* const* a, int64_t columns, const Tile& tile,
                     bool accumulate, float* c, int64_t c_stride);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_BLOCK_TILES_H_
