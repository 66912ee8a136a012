// Chooses kernels, tiles and parts of grouped products by their shapes.
#include "kernels/product_split.h"

#include <algorithm>

namespace comera::kernels {
namespace {

// Multiply-adds up to which a product stays in float32, and in the group.
constexpr int64_t kMostFloat32Work = int64_t{1} << 21;
constexpr int64_t kMostGroupedWork = int64_t{1} << 27;
// The classifier of BERT base's width on 128 sentences has 3 million.
constexpr int64_t kMostSmallWork = int64_t{1} << 22;
// Blocks have at most eight steps to walk in parts of kMostParts.
constexpr int64_t kMostSmallInner = int64_t{1} << 14;

// The steps in which blocks of both kernels walk along the inner size.
constexpr int64_t kStep = 32;
// A part is long enough to hide the latency of its first loads.
constexpr int64_t kPartInner = 256;
// More parts take longer to add up than they save; more blocks fill a device,
// and bound what a product needs of the scratch memory.
constexpr int64_t kMostParts = 64, kMostBlocks = 512;

int64_t Ceil(int64_t size, int64_t part) { return (size + part - 1) / part; }

bool IsWithin(int64_t m, int64_t n, int64_t k, int64_t most) {
  // Sizes first, so that products do not overflow.
  return m <= most && n <= most && k <= most && m * n <= most &&
         m * n * k <= most;
}

}  // namespace

ProductPath PathOf(int64_t m, int64_t n, int64_t k) {
  if (IsWithin(m, n, k, kMostFloat32Work)) return ProductPath::kFloat32;
  if (IsWithin(m, n, k, kMostGroupedWork)) return ProductPath::kTensorCores;
  return ProductPath::kAlone;
}

bool IsSmallProduct(int64_t m, int64_t n, int64_t k) {
  return k <= kMostSmallInner && IsWithin(m, n, k, kMostSmallWork);
}

ProductSplit SplitProduct(ProductPath path, int64_t m, int64_t n, int64_t k) {
  const int64_t edge =
      path == ProductPath::kTensorCores ? kTensorEdge : kFloat32Edge;
  ProductSplit split;
  split.tiles = Ceil(m, edge) * Ceil(n, edge);
  const int64_t most =
      std::min(kMostParts, kMostBlocks / std::max<int64_t>(split.tiles, 1));
  const int64_t wanted =
      std::clamp<int64_t>(Ceil(k, kPartInner), 1, std::max<int64_t>(most, 1));
  split.part_inner = std::max(Ceil(Ceil(k, wanted), kStep), int64_t{1}) * kStep;
  split.parts = std::max(Ceil(k, split.part_inner), int64_t{1});
  if (split.parts > 1) {
    split.scratch_floats = split.tiles * split.parts * edge * edge;
  }
  return split;
}

bool GroupedLaunches::Add(const ProductSplit& split) {
  const int64_t tiles = split.parts > 1 ? split.tiles : 0;
  const bool begins = launches_ == 0 || tasks_ == kMostTasks ||
                      scratch_floats_ + split.scratch_floats > kScratchFloats ||
                      tiles_ + tiles > kMostTiles;
  if (begins) {
    ++launches_;
    tasks_ = scratch_floats_ = tiles_ = 0;
  }
  ++tasks_;
  scratch_floats_ += split.scratch_floats;
  tiles_ += tiles;
  return begins;
}

}  // namespace comera::kernels
