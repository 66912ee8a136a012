// Checks which callers need a token, and how tokens are read from headers.

#include "worker/predict/caller_token.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

TEST(TokenOfCallTest, WithoutATokenOnlyThisMachineAndCertificates) {
  for (const char* peer : {"ipv4:127.0.0.1:5", "ipv4:127.9.9.9:5",
                           "ipv6:[::1]:5", "ipv6:%5B::1%5D:5", "unix:/x"}) {
    ASSERT_OK_AND_ASSIGN(const std::string token, TokenOfCall("", peer, false));
    EXPECT_EQ(token, "") << peer;
  }
  for (const char* peer : {"ipv4:10.0.0.1:5", "ipv4:128.0.0.1:5",
                           "ipv6:[fe80::1]:5", "ipv6:[::10]:5", ""}) {
    EXPECT_THAT(TokenOfCall("", peer, false),
                StatusIs(absl::StatusCode::kUnauthenticated))
        << peer;
    EXPECT_OK(TokenOfCall("", peer, true));
  }
}

TEST(TokenOfCallTest, TokensAreTakenFromAnywhereAndChecked) {
  ASSERT_OK_AND_ASSIGN(const std::string token,
                       TokenOfCall("Bearer abc_1", "ipv4:10.0.0.1:5", false));
  EXPECT_EQ(token, "abc_1");
  for (const std::string& text :
       {std::string("Bearer "), std::string("bearer x"), std::string("x"),
        std::string("Bearer a b"), std::string("Bearer a\n"),
        "Bearer " + std::string(5000, 'x')}) {
    EXPECT_THAT(TokenOfCall(text, "ipv4:127.0.0.1:5", true),
                StatusIs(absl::StatusCode::kUnauthenticated))
        << text;
  }
}

}  // namespace
}  // namespace comera::worker
