// A backend that forwards every operation to another one.
#ifndef COMERA_TESTS_FAKES_FORWARDING_BACKEND_H_
#define COMERA_TESTS_FAKES_FORWARDING_BACKEND_H_

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"

namespace comera::kernels {

// Turns every operation and copy into a call with a name, which a subclass runs
// when it wants to. `backend` must outlive it.
class ForwardingBackend : public Backend {
 public:
  // The operation owns its arguments, but not the memory that they point to.
  using Operation = std::function<absl::Status()>;

  explicit ForwardingBackend(Backend* backend) : backend_(backend) {}

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return backend_->Allocate(bytes);
  }
  void Free(void* memory) override { backend_->Free(memory); }
  void Seal() override { backend_->Seal(); }
  absl::Status Unseal() override { return backend_->Unseal(); }
  absl::Status Synchronize() override { return backend_->Synchronize(); }
  absl::StatusOr<int64_t> FreeBytes() override { return backend_->FreeBytes(); }
  bool has_bf16() const override { return backend_->has_bf16(); }
  bool in_host_memory() const override { return backend_->in_host_memory(); }
  absl::Status BeginTogether() override { return backend_->BeginTogether(); }
  absl::Status EndTogether() override { return backend_->EndTogether(); }

  absl::Status GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                        ConstVector bias, Matrix c) override {
    return Forward("GemmBias", &Backend::GemmBias, transpose_b, a, b, bias, c);
  }
#define LIST(...) __VA_ARGS__
#define OPERATION(name, parameters, arguments)             \
  absl::Status name parameters override {                  \
    return Forward(#name, &Backend::name, LIST arguments); \
  }
#define BF16_OPERATION OPERATION
#define WORKSPACE_BYTES(name, parameters, arguments) \
  int64_t name parameters override { return backend_->name arguments; }
#include "kernels/backend_operations.def"
#undef LIST

 protected:
  virtual absl::Status Call(const std::string& name, Operation operation) = 0;
  Backend* backend() const { return backend_; }

 private:
  // A copy of an argument that lasts until the operation runs.
  template <typename T>
  static T Own(const T& argument) {
    return argument;
  }
  template <typename T>
  static std::vector<T> Own(absl::Span<const T> list) {
    return {list.begin(), list.end()};
  }

  template <typename Method, typename... Arguments>
  absl::Status Forward(const char* name, Method method,
                       const Arguments&... arguments) {
    return Call(
        name, [this, method, owned = std::make_tuple(Own(arguments)...)] {
          return std::apply(
              [&](const auto&... each) { return (backend_->*method)(each...); },
              owned);
        });
  }

  Backend* const backend_;
};

}  // namespace comera::kernels

#endif  // COMERA_TESTS_FAKES_FORWARDING_BACKEND_H_
