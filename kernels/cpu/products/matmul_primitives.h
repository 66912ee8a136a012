// oneDNN's primitives for products of matrices, kept by shape.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_MATMUL_PRIMITIVES_H_
#define COMERA_KERNELS_CPU_PRODUCTS_MATMUL_PRIMITIVES_H_

#include <omp.h>

#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <tuple>
#include <vector>

namespace comera::kernels {

// A product c (m, n) = op(a) op(b) + beta * c with sums in float32, for so many
// threads. a and b are of one type and have no gaps between their rows; c is
// float32.
struct MatmulShape {
  dnnl::memory::data_type operands = dnnl::memory::data_type::f32;
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t c_stride = 0;
  float beta = 0;
  int threads = omp_get_max_threads();
};

// Makes the primitive of a shape when it is first used. When there are too many
// of them, all are dropped and made again as needed. Not thread-safe; methods
// throw dnnl::error.
class MatmulPrimitives {
 public:
  MatmulPrimitives();

  // Whether oneDNN uses its BRGEMM kernel for the shape, which packs operands
  // itself, rather than its general GEMM.
  bool HasBlockKernel(const MatmulShape& shape) { return Get(shape).blocked; }
  void Run(const MatmulShape& shape, const void* a, const void* b, float* c);

  // Memory that grows to the largest size that was asked for.
  class Buffer {
   public:
    void* AtLeast(int64_t bytes) {
      const size_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
      if (lines_.size() < lines) lines_.resize(lines);
      return lines_.data();
    }

   private:
    struct alignas(64) Line {
      char bytes[64];
    };
    std::vector<Line> lines_;
  };

 private:
  using Key = std::tuple<dnnl::memory::data_type, bool, bool, int64_t, int64_t,
                         int64_t, int64_t, float, int>;
  struct Product {
    dnnl::memory::desc a, b, c, scratchpad;
    dnnl::matmul primitive;
    bool blocked = false;
  };
  const Product& Get(const MatmulShape& shape);

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Product> products_;
  Buffer scratchpad_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_MATMUL_PRIMITIVES_H_
