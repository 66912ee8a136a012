// Tests the reader of JSON Web Tokens with tokens that OpenSSL has signed, and
// with what is none.
#include "common/openid/json_web_token.h"

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/server/auth/oidc/signing_key.h"

namespace comera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string Token(absl::string_view header, absl::string_view claims,
                  absl::string_view signature = "signature") {
  return absl::StrCat(ToBase64Url(header), ".", ToBase64Url(claims), ".",
                      ToBase64Url(signature));
}

void ExpectRefused(const std::string& text, const std::string& why) {
  EXPECT_THAT(ParseJsonWebToken(text),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr(why), Not(HasSubstr("secret")))))
      << text.substr(0, 200);
}

TEST(JsonWebTokenTest, PartsAreRead) {
  const SigningKey key = SigningKey::Rsa("one");
  const std::string text = key.Sign("RS256", {{"sub", "ann"}, {"n", {1, 2}}});
  EXPECT_TRUE(LooksLikeJsonWebToken(text));
  ASSERT_OK_AND_ASSIGN(const JsonWebToken token, ParseJsonWebToken(text));
  EXPECT_EQ(token.algorithm, "RS256");
  EXPECT_EQ(token.key_id, "one");
  EXPECT_EQ(token.claims["sub"], "ann");
  EXPECT_EQ(token.signature.size(), 256u);
  EXPECT_EQ(absl::StrCat(token.signed_text, ".", ToBase64Url(token.signature)),
            text);
}

TEST(JsonWebTokenTest, OtherAlgorithmsAreRefused) {
  for (const char* name : {"none", "None", "HS256", "HS512", "RS512", "EdDSA",
                           "ES384", "rs256", ""}) {
    ExpectRefused(Token(Json{{"alg", name}}.dump(), R"({"sub":"secret"})"),
                  "`alg`");
  }
  ExpectRefused(Token(R"({"typ":"JWT"})", "{}"), "`alg`");
  ExpectRefused(Token(R"({"alg":["RS256"]})", "{}"), "`alg`");
  // Without a signature.
  ExpectRefused(absl::StrCat(ToBase64Url(R"({"alg":"none"})"), ".",
                             ToBase64Url("{}"), "."),
                "`alg`");
  ExpectRefused(absl::StrCat(ToBase64Url(R"({"alg":"RS256"})"), ".",
                             ToBase64Url("{}"), "."),
                "signature");
}

TEST(JsonWebTokenTest, HeadersThatMeanMoreAreRefused) {
  ExpectRefused(Token(R"({"alg":"RS256","crit":["b64"],"b64":false})", "{}"),
                "`crit`");
  ExpectRefused(Token(R"({"alg":"RS256","typ":"logout+jwt"})", "{}"), "`typ`");
  ExpectRefused(Token(R"({"alg":"RS256","kid":7})", "{}"), "`kid`");
  ExpectRefused(
      Token(Json{{"alg", "RS256"}, {"kid", std::string(257, 'k')}}.dump(),
            "{}"),
      "`kid`");
  EXPECT_OK(
      ParseJsonWebToken(Token(R"({"alg":"RS256","typ":"at+JWT"})", "{}")));
  // A key that the token itself brings is not looked at.
  ASSERT_OK_AND_ASSIGN(
      const JsonWebToken token,
      ParseJsonWebToken(
          Token(R"({"alg":"RS256","jku":"https://evil","jwk":{"kty":"oct"}})",
                "{}")));
  EXPECT_EQ(token.key_id, "");
}

TEST(JsonWebTokenTest, WhatIsNoTokenIsRefused) {
  const std::string good = Token(R"({"alg":"ES256"})", R"({"a":1})");
  ASSERT_OK(ParseJsonWebToken(good));
  ExpectRefused("", "three parts");
  ExpectRefused("eyJ", "three parts");
  ExpectRefused(good + ".", "three parts");
  ExpectRefused(good + ".secret.more", "three parts");
  ExpectRefused("..", "header is not base64url");
  ExpectRefused(good + "=", "signature is not base64url");
  ExpectRefused(" " + good, "header is not base64url");
  ExpectRefused(good + "\n", "signature is not base64url");
  ExpectRefused(good + "+", "signature is not base64url");
  ExpectRefused(std::string("eyJ\0.a.b", 8), "header is not base64url");
  ExpectRefused(Token("[]", "{}"), "header is no JSON object");
  ExpectRefused(Token("{", "{}"), "header is no JSON object");
  ExpectRefused(Token(R"({"alg":"ES256"})", "[1]"),
                "payload is no JSON object");
  ExpectRefused(Token(R"({"alg":"ES256"})", "{\"a\":1e999}"), "payload is no");
  ExpectRefused(
      Token(R"({"alg":"ES256"})", absl::StrCat("{\"a\":", std::string(50, '['),
                                               std::string(50, ']'), "}")),
      "payload is no JSON object");
  ExpectRefused(Token(R"({"alg":"ES256"})", "{}", std::string(1025, 's')),
                "signature has more than");
  ExpectRefused(absl::StrCat(good, std::string(kMaxJsonWebToken, 'A')),
                "of at most 7168");
}

}  // namespace
}  // namespace comera
