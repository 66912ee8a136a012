// The macros that this Abseil (20220623) lacks; matchers for tests are in
// common/status_matchers.h.
#ifndef COMERA_COMMON_STATUS_MACROS_H_
#define COMERA_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define COMERA_CONCAT_INNER(a, b) a##b
#define COMERA_CONCAT(a, b) COMERA_CONCAT_INNER(a, b)

// Returns the Status `expr` from the function if it is an error.
#define RETURN_IF_ERROR(expr)                        \
  do {                                               \
    ::absl::Status comera_status_ = (expr);          \
    if (!comera_status_.ok()) return comera_status_; \
  } while (false)

// ASSIGN_OR_RETURN(auto x, F()): assigns the value of F(), or returns its
// error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_INNER(COMERA_CONCAT(comera_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                           \
  if (!tmp.ok()) return tmp.status();          \
  lhs = *std::move(tmp)

#endif  // COMERA_COMMON_STATUS_MACROS_H_
