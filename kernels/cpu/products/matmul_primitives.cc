// Makes, keeps and runs oneDNN's matmul primitives.
#include "kernels/cpu/products/matmul_primitives.h"

#include <string_view>
#include <utility>

namespace comera::kernels {
namespace {

using dnnl::memory;

// The most primitives that are kept, some 50 kB each: batches of every length
// make ever new shapes. All are dropped at once, which costs the next steps
// some 0.1 ms for each shape.
constexpr size_t kMostProducts = 256;

}  // namespace

// oneDNN would keep more of them for itself, for the whole process.
MatmulPrimitives::MatmulPrimitives() { dnnl::set_primitive_cache_capacity(0); }

const MatmulPrimitives::Product& MatmulPrimitives::Get(const MatmulShape& s) {
  const Key key(s.operands, s.transpose_a, s.transpose_b, s.m, s.n, s.k,
                s.c_stride, s.beta, s.threads);
  const auto found = products_.find(key);
  if (found != products_.end()) return found->second;
  if (products_.size() >= kMostProducts) products_.clear();
  Product product;
  product.a =
      memory::desc({s.m, s.k}, s.operands,
                   s.transpose_a ? memory::dims{1, s.m} : memory::dims{s.k, 1});
  product.b =
      memory::desc({s.k, s.n}, s.operands,
                   s.transpose_b ? memory::dims{1, s.k} : memory::dims{s.n, 1});
  product.c = memory::desc({s.m, s.n}, memory::data_type::f32,
                           memory::dims{s.c_stride, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.beta != 0) {
    dnnl::post_ops sum;
    sum.append_sum(s.beta);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR < 3
  const dnnl::matmul::primitive_desc description(
      dnnl::matmul::desc(product.a, product.b, product.c), attributes, engine_);
#else
  const dnnl::matmul::primitive_desc description(engine_, product.a, product.b,
                                                 product.c, attributes);
#endif
  product.scratchpad = description.scratchpad_desc();
  product.blocked =
      std::string_view(description.impl_info_str()).substr(0, 3) == "brg";
  product.primitive = dnnl::matmul(description);
  return products_.emplace(key, std::move(product)).first->second;
}

void MatmulPrimitives::Run(const MatmulShape& shape, const void* a,
                           const void* b, float* c) {
  const Product& product = Get(shape);
  // oneDNN does not write its operands.
  product.primitive.execute(
      stream_, {{DNNL_ARG_SRC, {product.a, engine_, const_cast<void*>(a)}},
                {DNNL_ARG_WEIGHTS, {product.b, engine_, const_cast<void*>(b)}},
                {DNNL_ARG_DST, {product.c, engine_, c}},
                {DNNL_ARG_SCRATCHPAD,
                 {product.scratchpad, engine_,
                  scratchpad_.AtLeast(
                      static_cast<int64_t>(product.scratchpad.get_size()))}}});
  stream_.wait();
}

}  // namespace comera::kernels
