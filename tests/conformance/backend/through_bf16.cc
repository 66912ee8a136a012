// Rounds operands, runs an operation in bfloat16 and widens its results.
#include "tests/conformance/backend/through_bf16.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/fakes/forwarding_backend.h"

namespace comera::kernels {
namespace {

// The copies of one call's operands.
class Copies {
 public:
  explicit Copies(Backend* backend) : backend_(backend) {}
  ~Copies() {
    for (const auto& [address, copy] : copies_)
      backend_->Free(copy.rounded.data);
  }

  // The copy of a matrix; null of a null. The first error is kept for Finish.
  Bf16Matrix Of(ConstMatrix m) {
    if (m.data == nullptr) return {};
    const auto found = copies_.find(m.data);
    if (found != copies_.end()) return found->second.rounded;
    const absl::StatusOr<void*> memory = backend_->Allocate(Bytes(m));
    if (!memory.ok()) {
      status_.Update(memory.status());
      return {};
    }
    Copy copy;
    copy.rounded =
        Bf16Matrix(static_cast<uint16_t*>(*memory), m.rows, m.cols, m.stride);
    copies_[m.data] = copy;
    status_.Update(backend_->Round(m, copy.rounded));
    return copy.rounded;
  }
  Bf16Matrix Result(Matrix m) {
    const Bf16Matrix rounded = Of(m);
    if (m.data != nullptr) copies_[m.data].widen_to = m;
    return rounded;
  }
  // Widens the results of an operation that returned `status`.
  absl::Status Finish(const absl::Status& status) {
    RETURN_IF_ERROR(status_);
    RETURN_IF_ERROR(status);
    for (const auto& [address, copy] : copies_) {
      RETURN_IF_ERROR(CheckGaps(copy.rounded));
      if (copy.widen_to.data == nullptr) continue;
      RETURN_IF_ERROR(backend_->Widen(copy.rounded, copy.widen_to));
    }
    // Before the copies are freed.
    return backend_->Synchronize();
  }

 private:
  struct Copy {
    Bf16Matrix rounded;
    Matrix widen_to;  // null of what is only read
  };

  static int64_t Bytes(ConstMatrix m) { return m.rows * m.stride * 2; }

  // What lies between rows is 0 from the start.
  absl::Status CheckGaps(Bf16Matrix m) {
    std::vector<uint16_t> all(m.rows * m.stride);
    RETURN_IF_ERROR(backend_->CopyToHost(all.data(), m.data,
                                         static_cast<int64_t>(all.size()) * 2));
    RETURN_IF_ERROR(backend_->Synchronize());
    for (int64_t at = 0; at < m.rows * m.stride; ++at) {
      if (at % m.stride >= m.cols && all[at] != 0) {
        return absl::InternalError(absl::StrCat("wrote into a gap, at ", at));
      }
    }
    return absl::OkStatus();
  }

  Backend* const backend_;
  std::map<const float*, Copy> copies_;
  absl::Status status_;
};

class ThroughBf16Backend : public ForwardingBackend {
 public:
  explicit ThroughBf16Backend(std::unique_ptr<Backend> backend)
      : ForwardingBackend(backend.get()), owned_(std::move(backend)) {}

  absl::Status ResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                 ConstMatrix residual, ConstVector gamma,
                                 ConstVector beta, float epsilon,
                                 Matrix normalised, Vector inverse_deviation,
                                 Matrix y) override {
    Copies copies(backend());
    return copies.Finish(backend()->ResidualLayerNormBf16(
        key, copies.Of(x), copies.Of(residual), gamma, beta, epsilon,
        copies.Result(normalised), inverse_deviation, copies.Result(y)));
  }
  absl::Status ResidualLayerNormBackward(
      const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
      ConstVector inverse_deviation, ConstVector gamma, Matrix grad_x,
      Matrix grad_residual, Vector grad_gamma, Vector grad_beta) override {
    Copies copies(backend());
    return copies.Finish(backend()->ResidualLayerNormBackwardBf16(
        key, copies.Of(grad_y), copies.Of(normalised), inverse_deviation, gamma,
        copies.Result(grad_x), copies.Result(grad_residual), grad_gamma,
        grad_beta));
  }
  absl::Status LayerNormOutput(const DropoutKey& key, ConstMatrix normalised,
                               ConstVector gamma, ConstVector beta,
                               Matrix y) override {
    Copies copies(backend());
    return copies.Finish(backend()->LayerNormOutputBf16(
        key, copies.Of(normalised), gamma, beta, copies.Result(y)));
  }
  absl::Status Attention(const AttentionShape& shape, const DropoutKey& key,
                         ConstIndices offsets, ConstMatrix q, ConstMatrix k,
                         ConstMatrix v, float* log_sum, Matrix out,
                         void* workspace) override {
    Copies copies(backend());
    return copies.Finish(backend()->AttentionBf16(
        shape, key, offsets, copies.Of(q), copies.Of(k), copies.Of(v), log_sum,
        copies.Result(out), workspace));
  }
  absl::Status AttentionBackward(const AttentionShape& shape,
                                 const DropoutKey& key, ConstIndices offsets,
                                 ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                 const float* log_sum, ConstMatrix out,
                                 ConstMatrix grad_out, Matrix grad_q,
                                 Matrix grad_k, Matrix grad_v,
                                 void* workspace) override {
    Copies copies(backend());
    return copies.Finish(backend()->AttentionBackwardBf16(
        shape, key, offsets, copies.Of(q), copies.Of(k), copies.Of(v), log_sum,
        copies.Of(out), copies.Of(grad_out), copies.Result(grad_q),
        copies.Result(grad_k), copies.Result(grad_v), workspace));
  }

 protected:
  absl::Status Call(const std::string&, Operation operation) override {
    return operation();
  }

 private:
  const std::unique_ptr<Backend> owned_;
};

}  // namespace

std::unique_ptr<Backend> ThroughBf16(std::unique_ptr<Backend> backend) {
  return std::make_unique<ThroughBf16Backend>(std::move(backend));
}

}  // namespace comera::kernels
