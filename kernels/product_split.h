// How a GPU multiplies the matrices of operations that run beside each other
// (Backend::BeginTogether): by which kernel, in which tiles, in how many parts
// of the inner size. By shapes alone, so that results repeat whatever else
// runs, and the planner knows them without a GPU.
#ifndef COMERA_KERNELS_PRODUCT_SPLIT_H_
#define COMERA_KERNELS_PRODUCT_SPLIT_H_

#include <cstdint>

namespace comera::kernels {

enum class ProductPath {
  kFloat32,      // in the group, in float32: ranks times ranks
  kTensorCores,  // in the group, in the backend's precision
  kAlone,        // fills the device by itself
};
ProductPath PathOf(int64_t m, int64_t n, int64_t k);

// Whether a product of float32 operands that runs by itself takes the kernel of
// the group rather than cuBLAS. Models whose products are all of this kind do
// without cuBLAS and its memory.
bool IsSmallProduct(int64_t m, int64_t n, int64_t k);

// Tiles of the result are squares of these sides.
inline constexpr int kFloat32Edge = 32, kTensorEdge = 64;

// Long inner sizes are cut into parts, each a block of threads for every tile;
// whichever block of a tile ends last adds up the parts in their order.
struct ProductSplit {
  int64_t tiles = 0;
  int64_t parts = 1;
  int64_t part_inner = 0;      // all parts' but the last's
  int64_t scratch_floats = 0;  // what the parts need
};
// `path` is not kAlone.
ProductSplit SplitProduct(ProductPath path, int64_t m, int64_t n, int64_t k);

// Counts the launches of operations of one level.
class GroupedLaunches {
 public:
  static constexpr int64_t kMostTasks = 320;  // by the size of parameters
  static constexpr int64_t kScratchFloats = int64_t{8} << 20;
  static constexpr int64_t kMostTiles = 16384;  // split ones

  // Adds an operation, a product's with its split; returns whether a new launch
  // begins with it.
  bool Add(const ProductSplit& split);
  int64_t launches() const { return launches_; }

 private:
  int64_t launches_ = 0;
  // The last launch has so many.
  int64_t tasks_ = 0, scratch_floats_ = 0, tiles_ = 0;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_PRODUCT_SPLIT_H_
