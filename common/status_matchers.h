// Matchers and macros for absl::Status in tests.
#ifndef COMERA_COMMON_STATUS_MATCHERS_H_
#define COMERA_COMMON_STATUS_MATCHERS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera {

inline const absl::Status& ToStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

// Example: EXPECT_THAT(f(), IsOk());
MATCHER(IsOk, "is OK") {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).ok();
}

// Example: EXPECT_THAT(f(), StatusIs(absl::StatusCode::kNotFound,
// HasSubstr("x")));
MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).code() == code &&
         ::testing::Matches(message)(std::string(ToStatus(arg).message()));
}
MATCHER_P(StatusIs, code, "") {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).code() == code;
}

}  // namespace comera

#define EXPECT_OK(expr) EXPECT_THAT((expr), ::comera::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT((expr), ::comera::IsOk())

// Example: ASSERT_OK_AND_ASSIGN(auto x, F());
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_INNER(COMERA_MATCHER_CONCAT(or_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  ASSERT_OK(tmp);                                  \
  lhs = *std::move(tmp)
#define COMERA_MATCHER_CONCAT_INNER(a, b) a##b
#define COMERA_MATCHER_CONCAT(a, b) COMERA_MATCHER_CONCAT_INNER(a, b)

#endif  // COMERA_COMMON_STATUS_MATCHERS_H_
