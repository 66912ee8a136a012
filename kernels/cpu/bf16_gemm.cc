// Multiplies matrices in bfloat16 through oneDNN primitives kept by shape.
#include "kernels/cpu/bf16_gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

using dnnl::memory;

// Rows, columns and inner size from which a product of one thread takes less
// time than in float32, conversion included (tests/bench:ops, BM_GemmBf16):
// at 64 about 0.7 of it, at 30, where the ranks are, as long or longer.
constexpr int64_t kLeastExtent = 64;

COMERA_CLONES
void ToBf16(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    // Rounds to nearest, ties to even. A NaN whose fraction is all ones in the
    // upper half would overflow to a zero; it is kept a NaN.
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    y[i] = static_cast<uint16_t>((nan ? bits | 0x400000 : rounded) >> 16);
  }
}

void Convert(ConstMatrix m, uint16_t* to) {
  const bool contiguous = m.stride == m.cols || m.rows == 1;
  ParallelRuns(omp_get_max_threads(), m.rows, m.cols, contiguous, 1,
               [&](int64_t row, int64_t column, int64_t count) {
                 ToBf16(m.data + row * m.stride + column,
                        to + row * m.cols + column, count);
               });
}

}  // namespace

struct Bf16Gemm::Primitives {
  using Key =
      std::tuple<bool, bool, int64_t, int64_t, int64_t, int64_t, float, int>;
  struct Product {
    memory::desc a, b, c, scratchpad;
    dnnl::matmul primitive;
  };

  const Product& Get(const Key& key) {
    const auto found = products.find(key);
    if (found != products.end()) return found->second;
    const auto [transpose_a, transpose_b, m, n, k, stride, beta, threads] = key;
    Product product;
    product.a =
        memory::desc({m, k}, memory::data_type::bf16,
                     transpose_a ? memory::dims{1, m} : memory::dims{k, 1});
    product.b =
        memory::desc({k, n}, memory::data_type::bf16,
                     transpose_b ? memory::dims{1, k} : memory::dims{n, 1});
    product.c =
        memory::desc({m, n}, memory::data_type::f32, memory::dims{stride, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(beta);
      attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR < 3
    const dnnl::matmul::primitive_desc description(
        dnnl::matmul::desc(product.a, product.b, product.c), attributes,
        engine);
#else
    const dnnl::matmul::primitive_desc description(engine, product.a, product.b,
                                                   product.c, attributes);
#endif
    product.scratchpad = description.scratchpad_desc();
    product.primitive = dnnl::matmul(description);
    return products.emplace(key, std::move(product)).first->second;
  }

  // Grows to the largest that was asked for.
  class Buffer {
   public:
    void* AtLeast(size_t bytes) {
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

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Product> products;
  Buffer a, b, scratchpad;
};

Bf16Gemm::Bf16Gemm() : primitives_(std::make_unique<Primitives>()) {}
Bf16Gemm::~Bf16Gemm() = default;

bool CpuHasBf16() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
         dnnl_cpu_isa_avx512_core_bf16;
}

bool Bf16Gemm::Pays(int64_t m, int64_t n, int64_t k) {
  static const bool supported = CpuHasBf16();
  return supported && std::min({m, n, k}) >= kLeastExtent;
}

absl::Status Bf16Gemm::Run(bool transpose_a, bool transpose_b, ConstMatrix a,
                           ConstMatrix b, float beta, Matrix c) {
  Primitives& p = *primitives_;
  const int64_t k = transpose_a ? a.rows : a.cols;
  try {
    const Primitives::Product& product =
        p.Get({transpose_a, transpose_b, c.rows, c.cols, k, c.stride, beta,
               omp_get_max_threads()});
    auto* narrow_a =
        static_cast<uint16_t*>(p.a.AtLeast(a.rows * a.cols * sizeof(uint16_t)));
    auto* narrow_b =
        static_cast<uint16_t*>(p.b.AtLeast(b.rows * b.cols * sizeof(uint16_t)));
    Convert(a, narrow_a);
    Convert(b, narrow_b);
    product.primitive.execute(
        p.stream, {{DNNL_ARG_SRC, {product.a, p.engine, narrow_a}},
                   {DNNL_ARG_WEIGHTS, {product.b, p.engine, narrow_b}},
                   {DNNL_ARG_DST, {product.c, p.engine, c.data}},
                   {DNNL_ARG_SCRATCHPAD,
                    {product.scratchpad, p.engine,
                     p.scratchpad.AtLeast(product.scratchpad.get_size())}}});
    p.stream.wait();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("bfloat16 matmul(m=", c.rows,
                                            ", n=", c.cols, ", k=", k,
                                            ") failed: ", error.message));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
