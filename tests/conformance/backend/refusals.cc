// Wrong shapes, null memory and impossible sizes are refused by name.
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/conformance/backend/harness.h"

namespace comera::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Check = std::function<void(Backend*, float*)>;

constexpr int64_t kFloats = 256;

class RefusalTest : public ::testing::Test {
 public:
  RefusalTest(BackendFactory factory, Check check)
      : factory_(std::move(factory)), check_(std::move(check)) {}
  void TestBody() override {
    const std::unique_ptr<Backend> backend = factory_(1);
    ASSERT_OK_AND_ASSIGN(void* memory,
                         backend->Allocate(kFloats * sizeof(float)));
    check_(backend.get(), static_cast<float*>(memory));
    backend->Free(memory);
  }

 private:
  const BackendFactory factory_;
  const Check check_;
};

void ExpectRefused(const absl::Status& status, const char* op,
                   const char* what) {
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr(op), HasSubstr(what))));
}

void RefusesShapes(Backend* b, float* p) {
  const Matrix m(p, 4, 5);
  ExpectRefused(b->Gemm(false, false, 1, m, m, 0, m), "Gemm", "4x5");
  ExpectRefused(b->Gemm(false, true, 1, m, m, 0, Matrix(p, 4, 5)), "Gemm", "b");
  ExpectRefused(b->Activate(Activation::kGelu, m, Matrix(p, 5, 4)), "Activate",
                "y");
  ExpectRefused(b->Activate(Activation::kGelu, m, Matrix(p, 4, 5, 3)),
                "Activate", "stride");
  ExpectRefused(b->Activate(Activation::kGelu, m, Matrix(nullptr, 4, 5)),
                "Activate", "null");
  ExpectRefused(
      b->Activate(Activation::kTanh, Matrix(p, -1, 5), Matrix(p, -1, 5)),
      "Activate", "-1");
  ExpectRefused(b->ActivateBackward(Activation::kTanh, m, m, Matrix(p, 4, 4)),
                "ActivateBackward", "grad_x");
  ExpectRefused(b->CopyRows(m, Matrix(p, 5, 4)), "CopyRows", "to");
  const ConstIndices two(reinterpret_cast<const int32_t*>(p), 2);
  ExpectRefused(b->PutRows(m, two, m), "PutRows", "in has shape 4x5");
  ExpectRefused(b->PutRows(Matrix(p, 2, 4), two, m), "PutRows", "2x5");
  ExpectRefused(b->PutRows(Matrix(p, 2, 5), ConstIndices(nullptr, 2), m),
                "PutRows", "null");
  ExpectRefused(b->AddBias(Vector(p, 4), m), "AddBias", "bias");
  ExpectRefused(b->BiasGradient(m, Vector(p, 4)), "BiasGradient", "grad_bias");
  ExpectRefused(b->Axpy(1, Vector(p, 3), Vector(p, 4)), "Axpy", "x");
  ExpectRefused(b->Scale(1, Vector(p, -4)), "Scale", "-4");
  ExpectRefused(b->FoldCore(m, Vector(p, 4), 0, m), "FoldCore", "d");
  ExpectRefused(b->SumOfSquares(Vector(p, 4), nullptr), "SumOfSquares", "null");
  ExpectRefused(b->SwapMiddleAxes(2, 2, 2, -2, p, p), "SwapMiddleAxes", "size");
  ExpectRefused(b->ResidualLayerNorm({}, m, m, Vector(p, 4), Vector(p, 5), 1e-5,
                                     m, Vector(p, 4), m),
                "ResidualLayerNorm", "gamma");
  ExpectRefused(b->LayerNormOutput({}, m, Vector(p, 5), Vector(p, 4), m),
                "LayerNormOutput", "beta");
  ExpectRefused(
      b->RmsNorm(m, Vector(p, 4), 1e-5, m, Vector(p, 4), Matrix(p + 64, 4, 5)),
      "RmsNorm", "gamma");
  ExpectRefused(b->RmsNorm(m, Vector(p, 5), 1e-5, m, Vector(p, 5), m),
                "RmsNorm", "inverse_deviation");
  ExpectRefused(b->RmsNormBackward(m, m, Vector(p, 4), Vector(p, 5),
                                   Matrix(p, 5, 4), Vector(p, 5)),
                "RmsNormBackward", "grad_x");
  ExpectRefused(b->Gated(Activation::kSilu, m, Matrix(p, 5, 4), m), "Gated",
                "up");
  ExpectRefused(
      b->GatedBackward(Activation::kSilu, m, m, m, m, Matrix(p, 4, 4)),
      "GatedBackward", "grad_up");
  for (Activation f : {Activation::kTanh, Activation::kRelu}) {
    ExpectRefused(b->GatedBackward(f, m, m, m, m, m), "GatedBackward", "slope");
  }
  const Matrix b1(p, 5, 6), a2(p, 6, 3);
  ExpectRefused(b->RankSpaceFfn(m, b1, Matrix(p, 5, 3), Matrix(p, 4, 3), p),
                "RankSpaceFfn", "a2");
  ExpectRefused(b->RankSpaceFfn(m, b1, a2, Matrix(p, 4, 3), nullptr),
                "RankSpaceFfn", "workspace");
  ExpectRefused(
      b->RankSpaceFfn(Matrix(p, 4, 0), Matrix(p, 0, 6), a2, Matrix(p, 4, 3), p),
      "RankSpaceFfn", "ones");
  ExpectRefused(b->RankSpaceFfnBackward(m, b1, a2, Matrix(p, 4, 3),
                                        Matrix(p, 4, 5), b1, a2, p),
                "RankSpaceFfnBackward", "grad_t1");
  ExpectRefused(b->PairwiseInteraction(2, m, m), "PairwiseInteraction", "z");
  ExpectRefused(b->PairwiseInteraction(0, m, m), "PairwiseInteraction", "z");
  ExpectRefused(b->PairwiseInteraction(5, m, Matrix(p, 4, 10)),
                "PairwiseInteraction", "out");
  ExpectRefused(
      b->PairwiseInteractionBackward(5, m, Matrix(p, 4, 11), Matrix(p, 4, 4)),
      "PairwiseInteractionBackward", "grad_z");
  const ConstIndices labels(reinterpret_cast<const int32_t*>(p), 4);
  ExpectRefused(b->SigmoidCrossEntropy(m, labels, Matrix(), p),
                "SigmoidCrossEntropy", "logits");
  ExpectRefused(b->SigmoidCrossEntropy(Matrix(p, 5, 1), labels, Matrix(), p),
                "SigmoidCrossEntropy", "labels");
  const Vector g(p, 6);
  ExpectRefused(
      b->ExpandLayerNorm({}, m, b1, Matrix(p, 4, 5), g, g, 1e-5,
                         Matrix(p, 4, 6), Vector(p, 4), Matrix(p, 4, 6), p),
      "ExpandLayerNorm", "residual");
  ExpectRefused(b->ExpandLayerNormBackward(
                    {}, m, b1, Matrix(p, 4, 6), Matrix(p, 4, 6), Vector(p, 4),
                    g, Matrix(p, 4, 6), Matrix(p, 4, 5), b1, g, g, p),
                "ExpandLayerNormBackward", "grad_t");
  ExpectRefused(
      b->ProjectBackward(m, Vector(), Vector(), Matrix(p, 4, 3), a2, a2, m, p),
      "ProjectBackward", "a has shape 6x3");
}

void RefusesRotation(Backend* b, float* p) {
  const Matrix m(p, 4, 6);
  const ConstIndices positions(reinterpret_cast<const int32_t*>(p + 64), 4);
  const auto rotate = [&](int64_t head_width, float theta, ConstIndices at) {
    return b->Rotate(head_width, theta, false, at, m);
  };
  ExpectRefused(rotate(3, 10000, positions), "Rotate", "head_width");
  ExpectRefused(rotate(-2, 10000, positions), "Rotate", "head_width");
  ExpectRefused(rotate(4, 10000, positions), "Rotate", "6 columns");
  ExpectRefused(rotate(0, 10000, positions), "Rotate", "6 columns");
  ExpectRefused(rotate(2, 0, positions), "Rotate", "theta");
  ExpectRefused(rotate(2, 10000, ConstIndices(positions.data, 3)), "Rotate",
                "3 positions");
  ExpectRefused(rotate(2, 10000, ConstIndices(nullptr, 4)), "Rotate", "null");
}

void RefusesAttention(Backend* b, float* p) {
  const int32_t host[] = {0, 4};
  void* on_device = p + 128;
  ASSERT_OK(b->CopyToDevice(on_device, host, sizeof(host)));
  const ConstIndices offsets(static_cast<const int32_t*>(on_device), 2);
  const Matrix m(p, 4, 5);
  const AttentionShape s = {1, 4, 4, 1, 5};
  ExpectRefused(
      b->Attention(s, {}, ConstIndices(offsets.data, 1), m, m, m, p, m, p),
      "Attention", "offsets");
  ExpectRefused(b->Attention(s, {}, offsets, m, m, m, nullptr, m, p),
                "Attention", "log_sum");
  ExpectRefused(b->Attention({1, -4, 4, 1, 5}, {}, offsets, m, m, m, p, m, p),
                "Attention", "-4");
  ExpectRefused(b->AttentionBackward(s, {}, offsets, m, m, m, p, m, m, m, m,
                                     Matrix(p, 4, 4), p),
                "AttentionBackward", "grad_v");
  AttentionShape grouped = {1, 4, 4, 5, 1, 2};
  ExpectRefused(b->Attention(grouped, {}, offsets, m, m, m, p, m, p),
                "Attention", "kv_heads");
  grouped.kv_heads = 10;
  ExpectRefused(b->Attention(grouped, {}, offsets, m, m, m, p, m, p),
                "Attention", "kv_heads");
  grouped.kv_heads = -1;
  ExpectRefused(b->Attention(grouped, {}, offsets, m, m, m, p, m, p),
                "Attention", "kv_heads");
  grouped.kv_heads = 1;
  ExpectRefused(
      b->Attention(grouped, {}, offsets, m, m, Matrix(p, 4, 1), p, m, p),
      "Attention", "k has shape 4x5, expected 4x1");
  RankSpaceAttentionShape r = {s, 4, 4, 4, 5};
  const Matrix c(p, 5, 5);
  ExpectRefused(b->RankSpaceAttention(r, {}, offsets, m, m, m, m, c, p, m, p),
                "RankSpaceAttention", "c");
  const Matrix g(p, 4, 4);
  ExpectRefused(b->RankSpaceAttentionBackward(r, {}, offsets, m, m, m, c, c, p,
                                              m, g, g, m, c, c, p),
                "RankSpaceAttentionBackward", "grad_v");
  r.attention.causal = true;
  ExpectRefused(b->RankSpaceAttention(r, {}, offsets, m, m, m, c, c, p, m, p),
                "RankSpaceAttention", "causal");
  ExpectRefused(b->RankSpaceAttentionBackward(r, {}, offsets, m, m, m, c, c, p,
                                              m, g, g, g, c, c, p),
                "RankSpaceAttentionBackward", "causal");
  r.attention = {1, 4, 4, 2, 5, 1};
  const Matrix c2(p, 10, 5);
  ExpectRefused(b->RankSpaceAttention(r, {}, offsets, m, m, m, c2, c2, p, m, p),
                "RankSpaceAttention", "kv_heads");
}

void RefusesCachedAttention(Backend* b, float* p) {
  const CachedAttentionShape good = {4, 2, 3, 1, 5, 1};
  const Matrix q(p, 2, 12), keys(p + 32, 6, 6), values(p + 80, 6, 5),
      out(p + 128, 2, 20);
  // Indices that are all in range: memory that was never written is 0.
  const ConstIndices first(reinterpret_cast<const int32_t*>(p + 192), 2);
  const auto attend = [&](const CachedAttentionShape& s, ConstIndices count,
                          int64_t most, Matrix k, Matrix v, Matrix to) {
    return b->CachedAttention(s, first, count, most, q, k, v, to);
  };
  const auto refused = [&](const absl::Status& status, const char* what) {
    ExpectRefused(status, "CachedAttention", what);
  };
  for (int64_t most : {0, -1, 7}) {
    refused(attend(good, first, most, keys, values, out), "most");
  }
  refused(attend(good, ConstIndices(first.data, 1), 3, keys, values, out),
          "count has size 1");
  refused(attend(good, ConstIndices(nullptr, 2), 3, keys, values, out),
          "count is null");
  refused(b->CachedAttention(good, ConstIndices(first.data, 3), first, 3, q,
                             keys, values, out),
          "first has size 3");
  refused(b->CachedAttention(good, first, first, 3, Matrix(p, 2, 11), keys,
                             values, out),
          "q has shape 2x11, expected 2x12");
  refused(attend(good, first, 3, Matrix(p + 32, 6, 5), values, out),
          "keys has shape 6x5, expected 6x6");
  refused(attend(good, first, 3, keys, Matrix(p + 80, 5, 5), out),
          "values has shape 5x5, expected 6x5");
  refused(attend(good, first, 3, keys, values, Matrix(p + 128, 2, 5)),
          "out has shape 2x5, expected 2x20");
  const auto shaped = [&](const CachedAttentionShape& s, const char* what) {
    refused(attend(s, first, 3, keys, values, out), what);
  };
  shaped({4, 3, 3, 1, 5, 1}, "key_heads is 3");
  shaped({4, 0, 3, 1, 5, 1}, "key_heads is 0");
  shaped({4, 2, 3, 8, 5, 1}, "value_heads is 8");
  shaped({4, 2, -3, 1, 5, 1}, "2x-3 of keys");
  shaped({4, 2, 3, 1, int64_t{1} << 62, 1}, "of values");
  shaped({int64_t{1} << 62, 2, 4, 1, 5, 1}, "heads");
}

void RefusesDropout(Backend* b, float* p) {
  const Matrix m(p, 4, 5);
  const StepState state;
  ExpectRefused(b->Dropout({1.0f, 0, 0, &state}, m, m), "Dropout", "rate");
  ExpectRefused(b->Dropout({-0.1f, 0, 0, &state}, m, m), "Dropout", "rate");
  ExpectRefused(
      b->Dropout({std::numeric_limits<float>::quiet_NaN(), 0, 0, &state}, m, m),
      "Dropout", "rate");
  ExpectRefused(b->Dropout({0.1f, 0, 0, nullptr}, m, m), "Dropout", "state");
}

void RefusesOptimiser(Backend* b, float* p) {
  const Vector v(p, 8);
  const AdamWSegment good = {0, 8, 0.1f, 0};
  const auto step = [&](const AdamWStep& s,
                        const std::vector<AdamWSegment>& segments) {
    return b->AdamW(s, segments, v, v, v, v);
  };
  AdamWStep zeroth;
  zeroth.step = 0;
  ExpectRefused(step(zeroth, {good}), "AdamW", "step");
  ExpectRefused(step({}, {{4, 5, 0.1f, 0}}), "AdamW", "outside");
  ExpectRefused(step({}, {{-1, 2, 0.1f, 0}}), "AdamW", "outside");
  const int64_t far = std::numeric_limits<int64_t>::max();
  ExpectRefused(step({}, {{far, 2, 0.1f, 0}}), "AdamW", "outside");
  ExpectRefused(step({}, {{0, 8, 0.1f, 0, 3}}), "AdamW", "rows");
  ExpectRefused(step({}, {{0, 8, 0.1f, 0, -8}}), "AdamW", "rows");
  const std::vector<BondSpan> bond = {{7, 2}};
  ExpectRefused(b->BondNorms(v, bond, 0, p, p), "BondNorms", "outside");
  const std::vector<BondSpan> inside = {{1, 2}};
  ExpectRefused(b->AddBondGradient(v, inside, nullptr, 0, v), "AddBondGradient",
                "coefficient");
  ExpectRefused(b->RelaxedSizeGradient(nullptr, 1, p, p, 1, p),
                "RelaxedSizeGradient", "bonds");
  ExpectRefused(b->ScaleByCount(1, nullptr, v), "ScaleByCount", "count");
  AdamWStep half;
  half.squares = p;
  ExpectRefused(step(half, {good}), "AdamW", "state");
  const auto orthogonal = [&](const std::vector<OrthogonalSegment>& segments) {
    return b->OrthogonalStep({}, segments, v, v, v, p);
  };
  ExpectRefused(orthogonal({{4, 1, 5, 0.1f, 0}}), "OrthogonalStep", "outside");
  ExpectRefused(orthogonal({{0, 0, 5, 0.1f, 0}}), "OrthogonalStep", "segment");
  ExpectRefused(orthogonal({{0, far, far, 0.1f, 0}}), "OrthogonalStep",
                "segment");
}

void RefusesMemory(Backend* b, float* p) {
  EXPECT_THAT(b->Allocate(int64_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1152921504606846976")));
  EXPECT_THAT(b->Allocate(-1), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(void* nothing, b->Allocate(0));
  b->Free(nothing);
  b->Free(nullptr);
  EXPECT_THAT(b->Copy(p, p, -4), StatusIs(absl::StatusCode::kInvalidArgument));
}

void AllocatesAlignedZeros(Backend* b, float*) {
  for (int64_t bytes : {1, 60, 4096, 5000000}) {
    ASSERT_OK_AND_ASSIGN(void* memory, b->Allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    std::vector<char> host(bytes, 'x');
    ASSERT_OK(b->CopyToHost(host.data(), memory, bytes));
    EXPECT_EQ(host, std::vector<char>(bytes, 0));
    b->Free(memory);
  }
}

}  // namespace

void RegisterRefusals(const std::string& name, BackendFactory factory) {
  const std::pair<const char*, Check> checks[] = {
      {"RefusesShapes", RefusesShapes},
      {"RefusesRotation", RefusesRotation},
      {"RefusesAttention", RefusesAttention},
      {"RefusesCachedAttention", RefusesCachedAttention},
      {"RefusesDropout", RefusesDropout},
      {"RefusesOptimiser", RefusesOptimiser},
      {"RefusesMemory", RefusesMemory},
      {"AllocatesAlignedZeros", AllocatesAlignedZeros}};
  for (const auto& [test, check] : checks) {
    ::testing::RegisterTest((name + "BackendTest").c_str(), test, nullptr,
                            nullptr, __FILE__, __LINE__,
                            [factory, check = check]() -> ::testing::Test* {
                              return new RefusalTest(factory, check);
                            });
  }
}

}  // namespace comera::kernels
