// Every operation starts on devices that give a block of threads little shared
// memory, and refuses clearly where it could not.
#include "kernels/cuda/shared_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace comera::kernels {
namespace {

using ::testing::HasSubstr;

constexpr CudaPrecision kPrecisions[] = {
    CudaPrecision::kFp32, CudaPrecision::kTf32, CudaPrecision::kBf16};

std::unique_ptr<Backend> CreateOn(int64_t shared_bytes,
                                  CudaPrecision precision) {
  fake_cuda::FakeDevice device;
  device.shared_bytes = shared_bytes;
  fake_cuda::SetFakeDevice(device);
  CudaOptions options;
  options.precision = precision;
  auto backend = CreateCudaBackend(options);
  EXPECT_OK(backend.status());
  return backend.ok() ? *std::move(backend) : nullptr;
}

// Starts operations on a device that notes their work instead of doing it, so
// that operands need no memory behind them.
class NotedOperations {
 public:
  explicit NotedOperations(Backend* backend) : backend_(backend) {
    fake_cuda::NoteWork(&noted_);
  }
  ~NotedOperations() { fake_cuda::NoteWork(nullptr); }

  void Attention(const AttentionShape& s) {
    const int64_t cols = s.heads * s.head_width;
    const Matrix q = M(s.tokens, cols), k = M(s.tokens, cols);
    Expect(backend_->Attention(s, Dropout(), Offsets(s), q, k, k, at_, q, at_));
    Expect(backend_->AttentionBackward(s, Dropout(), Offsets(s), q, k, k, at_,
                                       q, q, q, k, k, at_));
    if (!backend_->has_bf16()) return;
    const Bf16Matrix x(reinterpret_cast<uint16_t*>(at_), s.tokens, cols);
    Expect(backend_->AttentionBf16(s, Dropout(), Offsets(s), x, x, x, at_, x,
                                   at_));
    Expect(backend_->AttentionBackwardBf16(s, Dropout(), Offsets(s), x, x, x,
                                           at_, x, x, x, x, x, at_));
  }

  void RankSpaceAttention(const AttentionShape& a, int64_t rank) {
    const RankSpaceAttentionShape s = {a, rank, rank, rank, rank};
    const Matrix q = M(a.tokens, rank + 1), out = M(a.tokens, rank);
    const Matrix c = M(a.heads * (rank + 1), rank + 1),
                 e = M(a.heads * (rank + 1), rank);
    backend_->RankSpaceAttentionWorkspaceBytes(s);
    Expect(backend_->RankSpaceAttention(s, Dropout(), Offsets(a), q, q, q, c, e,
                                        at_, out, at_));
    Expect(backend_->RankSpaceAttentionBackward(s, Dropout(), Offsets(a), q, q,
                                                q, c, e, at_, out, out, out,
                                                out, c, e, at_));
  }

  void Stream(int64_t rows, int64_t rank, int64_t cols) {
    const Matrix x = M(rows, cols), t = M(rows, rank + 1), u = M(rows, rank);
    const Matrix b = M(rank + 1, cols), a = M(cols, rank);
    const Vector v(at_, cols), deviation(at_, rows);
    Expect(backend_->ExpandLayerNorm(Dropout(), t, b, x, v, v, 1e-5f, x,
                                     deviation, x, at_));
    Expect(backend_->ExpandLayerNormBackward(Dropout(), t, b, x, x, deviation,
                                             v, x, u, b, v, v, at_));
    Expect(backend_->ProjectBackward(x, v, v, u, a, a, x, at_));
    Expect(backend_->Gemm(false, false, 1, x, a, 0, u));
  }

  void RankSpaceFfn(int64_t rows, int64_t rank, int64_t width) {
    const Matrix t1 = M(rows, rank + 1), b1 = M(rank + 1, width);
    const Matrix a2 = M(width, rank), t2 = M(rows, rank);
    Expect(backend_->RankSpaceFfn(t1, b1, a2, t2, at_));
    Expect(backend_->RankSpaceFfnBackward(t1, b1, a2, t2, t2, b1, a2, at_));
  }

  void Interaction(int64_t vectors, int64_t width) {
    const Matrix z = M(64, vectors * width);
    const Matrix out = M(64, width + vectors * (vectors - 1) / 2);
    Expect(backend_->PairwiseInteraction(vectors, z, out));
    Expect(backend_->PairwiseInteractionBackward(vectors, z, out, z));
  }

  void CachedAttention(int64_t width) {
    const Matrix x = M(3, width), kept = M(100, width);
    const ConstIndices places = {reinterpret_cast<int32_t*>(at_), 3};
    Expect(backend_->CachedAttention({1, 1, width, 1, width, 1}, places, places,
                                     50, x, kept, kept, x));
  }

  size_t launches() const { return launches_; }

 private:
  Matrix M(int64_t rows, int64_t cols) const { return Matrix(at_, rows, cols); }
  DropoutKey Dropout() const {
    return {0.1f, 1, 0, reinterpret_cast<const StepState*>(at_)};
  }
  ConstIndices Offsets(const AttentionShape& s) const {
    return {reinterpret_cast<const int32_t*>(at_), s.sequences + 1};
  }
  void Expect(const absl::Status& status) {
    EXPECT_OK(status);
    launches_ += noted_.size();
    noted_.clear();
  }

  Backend* const backend_;
  float memory_[64] = {};
  float* const at_ = memory_;
  std::vector<fake_cuda::NotedWork> noted_;
  size_t launches_ = 0;
};

class SharedMemoryTest
    : public ::testing::TestWithParam<std::tuple<int, CudaPrecision>> {
 protected:
  void SetUp() override {
    fake_cuda::Reset();
    backend_ = CreateOn(int64_t{std::get<0>(GetParam())} * 1024,
                        std::get<1>(GetParam()));
    ASSERT_NE(backend_, nullptr);
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(SharedMemoryTest, AttentionOfEveryWidthStarts) {
  NotedOperations operations(backend_.get());
  for (const int64_t width : {1, 8, 16, 17, 32, 33, 64, 65, 100, 127, 128}) {
    for (const int64_t length : {1, 16, 17, 33, 64, 100, 128, 256, 257, 4096}) {
      for (const bool causal : {false, true}) {
        for (const int64_t heads : {1, 2, 3, 4, 12}) {
          const AttentionShape s = {3,     3 * length, length, heads,
                                    width, 0,          causal};
          SCOPED_TRACE(
              absl::StrCat(heads, " heads of ", width, ", length ", length));
          operations.Attention(s);
          if (causal || width == 128) continue;
          operations.RankSpaceAttention(s, width);
        }
      }
    }
  }
  EXPECT_GT(operations.launches(), 3000u);
}

TEST_P(SharedMemoryTest, TheEndsOfABranchStartAtEveryWidthAndRank) {
  NotedOperations operations(backend_.get());
  for (const int64_t rank : {1, 16, 30, 64, 200, 784, 785, 2000}) {
    for (const int64_t cols :
         {8, 64, 512, 704, 736, 768, 1024, 1536, 1664, 1696, 2048, 4096}) {
      for (const int64_t rows : {1, 300, 4096}) {
        // More groups of columns and ranks than there are numbers for are
        // refused on every device.
        if (rank > 784 && cols > 1536) continue;
        SCOPED_TRACE(absl::StrCat(rows, " x ", cols, ", rank ", rank));
        operations.Stream(rows, rank, cols);
      }
    }
  }
  EXPECT_GT(operations.launches(), 1000u);
}

TEST_P(SharedMemoryTest, OtherOperationsStart) {
  NotedOperations operations(backend_.get());
  for (const int64_t rank : {1, 15, 16, 31, 32, 47, 63, 64, 300}) {
    for (const int64_t rows : {1, 100, 5000}) {
      SCOPED_TRACE(absl::StrCat(rows, " rows, rank ", rank));
      operations.RankSpaceFfn(rows, rank, 3072);
    }
  }
  for (const int64_t vectors : {1, 2, 27, 100, 400}) {
    for (const int64_t width : {1, 16, 64, 128, 512}) {
      SCOPED_TRACE(absl::StrCat(vectors, " vectors of ", width));
      operations.Interaction(vectors, width);
    }
  }
  for (const int64_t width : {1, 64, 1024, 4096}) {
    SCOPED_TRACE(width);
    operations.CachedAttention(width);
  }
  EXPECT_GT(operations.launches(), 100u);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, SharedMemoryTest,
    ::testing::Combine(::testing::Values(99, 163, 227),
                       ::testing::ValuesIn(kPrecisions)),
    [](const ::testing::TestParamInfo<SharedMemoryTest::ParamType>& info) {
      return absl::StrCat("KiB", std::get<0>(info.param), "Precision",
                          static_cast<int>(std::get<1>(info.param)));
    });

// Ordinary attention and its gradients, of wide heads, on a device with this
// much shared memory.
std::vector<float> WideAttention(int64_t shared_bytes, CudaPrecision precision,
                                 bool causal) {
  const std::unique_ptr<Backend> backend = CreateOn(shared_bytes, precision);
  constexpr int64_t kTokens = 70, kCols = 128;
  constexpr int64_t kFloats = kTokens * kCols;
  const AttentionShape s = {1, kTokens, kTokens, 1, kCols, 0, causal};
  // q, k, v, grad_out; out, grad_q, grad_k, grad_v; log_sum, workspace
  std::vector<float> values(10 * kFloats);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7919 + 13) % 1009) / 1009 - 0.5f;
  }
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(float));
  auto memory = backend->Allocate(bytes);
  EXPECT_OK(memory.status());
  EXPECT_OK(backend->CopyToDevice(*memory, values.data(), bytes));
  auto offsets = backend->Allocate(2 * sizeof(int32_t));
  EXPECT_OK(offsets.status());
  const int32_t places[] = {0, kTokens};
  EXPECT_OK(backend->CopyToDevice(*offsets, places, sizeof(places)));
  const ConstIndices list = {static_cast<const int32_t*>(*offsets), 2};
  const auto m = [&](int i) {
    return Matrix(static_cast<float*>(*memory) + i * kFloats, kTokens, kCols);
  };
  EXPECT_OK(backend->Attention(s, {}, list, m(0), m(1), m(2), m(8).data, m(4),
                               m(9).data));
  EXPECT_OK(backend->AttentionBackward(s, {}, list, m(0), m(1), m(2), m(8).data,
                                       m(4), m(3), m(5), m(6), m(7),
                                       m(9).data));
  EXPECT_OK(backend->CopyToHost(values.data(), *memory, bytes));
  backend->Free(*memory);
  backend->Free(*offsets);
  return values;
}

TEST(SmallerTilesTest, AttentionHasTheSameBitsOnEveryDevice) {
  fake_cuda::Reset();
  for (const CudaPrecision precision : kPrecisions) {
    for (const bool causal : {false, true}) {
      const std::vector<float> small =
          WideAttention(99 * 1024, precision, causal);
      const std::vector<float> large =
          WideAttention(227 * 1024, precision, causal);
      EXPECT_EQ(
          std::memcmp(small.data(), large.data(), small.size() * sizeof(float)),
          0);
    }
  }
}

TEST(LeastSharedMemoryTest, ADeviceWithLessIsRefusedAtTheStart) {
  fake_cuda::Reset();
  fake_cuda::FakeDevice device;
  device.shared_bytes = kLeastSharedBytes - 1;
  fake_cuda::SetFakeDevice(device);
  EXPECT_THAT(CreateCudaBackend({}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has 101375 bytes of shared memory for a "
                                 "block of threads, at least 101376")));
}

}  // namespace
}  // namespace comera::kernels
