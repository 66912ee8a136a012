// Runs operations that a backend may execute beside each other.
#ifndef COMERA_KERNELS_TOGETHER_H_
#define COMERA_KERNELS_TOGETHER_H_

#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "kernels/backend.h"

namespace comera::kernels {

// Calls f() -> Status, whose operations (see BeginTogether) the backend may run
// beside each other. The first error.
template <typename F>
absl::Status RunTogether(Backend* backend, F&& f) {
  RETURN_IF_ERROR(backend->BeginTogether());
  absl::Status called = std::forward<F>(f)();
  absl::Status ended = backend->EndTogether();
  return called.ok() ? ended : called;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_TOGETHER_H_
