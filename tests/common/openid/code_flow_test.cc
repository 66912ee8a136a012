// Tests the messages of the authorization code flow.
#include "common/openid/code_flow.h"

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/server/auth/oidc/signing_key.h"

namespace comera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

OpenIdProvider Provider() {
  OpenIdProvider provider;
  provider.issuer = "https://id.example.com";
  provider.authorization_endpoint = "https://id.example.com/a";
  provider.scopes = {"groups", "offline_access"};
  return provider;
}

TEST(CodeFlowTest, TheUrlHasTheChallengeAndNotTheVerifier) {
  CodeRequest request = NewCodeRequest("a b", "http://127.0.0.1:1/callback");
  EXPECT_EQ(request.verifier.size(), 43u);
  EXPECT_NE(request.state, request.nonce);
  // The example of RFC 7636, appendix B.
  request.verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
  const std::string url = AuthorizationUrl(Provider(), request);
  EXPECT_THAT(
      url,
      AllOf(StartsWith("https://id.example.com/a?response_type=code&"),
            HasSubstr("code_challenge="
                      "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
            HasSubstr("client_id=a%20b&"),
            HasSubstr("redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback"),
            HasSubstr("scope=openid%20groups&"), Not(HasSubstr("prompt="))));
  EXPECT_THAT(url, Not(HasSubstr(request.verifier)));
  request.scopes.push_back("offline_access");
  EXPECT_THAT(
      AuthorizationUrl(Provider(), request),
      AllOf(HasSubstr("groups%20offline_access"), HasSubstr("prompt=consent")));
}

TEST(CodeFlowTest, OnlyTheAnswerToTheRequestIsTaken) {
  CodeRequest request = NewCodeRequest("c", "http://127.0.0.1:1/callback");
  request.state = "s/1";
  const auto read = [&](const std::string& query) {
    return ReadCallback(Provider(), request, query);
  };
  EXPECT_EQ(read("code=a%2Bb+c&state=s%2F1").value_or(""), "a+b c");
  EXPECT_OK(read("state=s/1&code=x&iss=https%3A%2F%2Fid.example.com"));
  const auto bad = StatusIs(absl::StatusCode::kInvalidArgument);
  for (const std::string& query :
       {std::string(), std::string("code=x"), std::string("code=x&state=s/2"),
        std::string("code=x&state="), std::string("state=s/1"),
        std::string("code=%zz&state=s/1"), std::string("code=%2&state=s/1"),
        std::string("code=x&state=s/1&iss=https://evil.example"),
        absl::StrCat("state=s/1&code=", std::string(9000, 'a'))}) {
    EXPECT_THAT(read(query), bad) << query.substr(0, 100);
  }
  EXPECT_THAT(
      read("state=s/1&error=access_denied&error_description=%1b[31m"),
      StatusIs(absl::StatusCode::kPermissionDenied,
               AllOf(HasSubstr("access_denied"), Not(HasSubstr("\x1b")))));
}

TEST(CodeFlowTest, ATokenTellsItsEnd) {
  const SigningKey key = SigningKey::Elliptic("one");
  EXPECT_EQ(ExpiryOf(key.Sign("ES256", {{"exp", 1800000000}})),
            absl::FromUnixSeconds(1800000000));
  EXPECT_EQ(ExpiryOf(key.Sign("ES256", {{"exp", "x"}})), absl::InfinitePast());
  EXPECT_EQ(ExpiryOf("comera_x_y"), absl::InfinitePast());
}

}  // namespace
}  // namespace comera
