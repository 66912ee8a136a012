// Tests the keys that check tokens with tokens that OpenSSL has signed.
#include "server/auth/oidc/verification_key.h"

#include "absl/strings/str_cat.h"
#include "common/openid/json_web_token.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/server/auth/oidc/signing_key.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

const Json kClaims = {{"sub", "ann"}};

absl::Status Check(const Json& key, const std::string& token) {
  const auto made = VerificationKey::Create(key);
  if (!made.ok()) return made.status();
  const auto parsed = ParseJsonWebToken(token);
  if (!parsed.ok()) return parsed.status();
  return made->Check(*parsed);
}

class VerificationKeyTest : public ::testing::Test {
 protected:
  const SigningKey rsa_ = SigningKey::Rsa("r");
  const SigningKey ec_ = SigningKey::Elliptic("e");
};

TEST_F(VerificationKeyTest, ThreeAlgorithmsAreChecked) {
  EXPECT_OK(Check(rsa_.PublicJson(), rsa_.Sign("RS256", kClaims)));
  EXPECT_OK(Check(rsa_.PublicJson(), rsa_.Sign("PS256", kClaims)));
  EXPECT_OK(Check(ec_.PublicJson(), ec_.Sign("ES256", kClaims)));
}

TEST_F(VerificationKeyTest, AnotherKeysSignatureIsRefused) {
  const auto wrong = StatusIs(absl::StatusCode::kUnauthenticated,
                              HasSubstr("signature is wrong"));
  const SigningKey other = SigningKey::Rsa("r");
  EXPECT_THAT(Check(rsa_.PublicJson(), other.Sign("RS256", kClaims)), wrong);
  EXPECT_THAT(Check(rsa_.PublicJson(), other.Sign("PS256", kClaims)), wrong);
  EXPECT_THAT(
      Check(ec_.PublicJson(), SigningKey::Elliptic("e").Sign("ES256", kClaims)),
      wrong);
}

TEST_F(VerificationKeyTest, EveryChangedByteIsNoticed) {
  for (const std::string& token :
       {rsa_.Sign("RS256", kClaims), ec_.Sign("ES256", kClaims)}) {
    const Json key = token.size() > 300 ? rsa_.PublicJson() : ec_.PublicJson();
    ASSERT_OK(Check(key, token));
    // The last character of base64 may hold bits that mean nothing.
    for (size_t i = 0; i + 1 < token.size(); ++i) {
      if (token[i] == '.' || token[i + 1] == '.') continue;
      std::string changed = token;
      changed[i] = changed[i] == 'A' ? 'B' : 'A';
      EXPECT_FALSE(Check(key, changed).ok()) << "byte " << i;
    }
  }
}

TEST_F(VerificationKeyTest, AKeyIsForItsOwnKindOfAlgorithm) {
  const auto wrong = StatusIs(absl::StatusCode::kUnauthenticated);
  // RS256's signature, shown as PS256's and the other way round.
  for (const char* const algorithm : {"RS256", "PS256"}) {
    const std::string other =
        std::string(algorithm) == "RS256" ? "PS256" : "RS256";
    EXPECT_THAT(Check(rsa_.PublicJson(),
                      rsa_.SignAs({{"alg", algorithm}}, other, kClaims)),
                wrong);
  }
  EXPECT_THAT(
      Check(ec_.PublicJson(), ec_.SignAs({{"alg", "RS256"}}, "ES256", kClaims)),
      wrong);
  EXPECT_THAT(Check(rsa_.PublicJson(),
                    rsa_.SignAs({{"alg", "ES256"}}, "RS256", kClaims)),
              wrong);
  Json only = rsa_.PublicJson();
  only["alg"] = "PS256";
  EXPECT_THAT(Check(only, rsa_.Sign("RS256", kClaims)), wrong);
  EXPECT_OK(Check(only, rsa_.Sign("PS256", kClaims)));
}

TEST_F(VerificationKeyTest, BadKeysAreRefused) {
  const auto refused = [](Json key, const char* name, const Json& value,
                          const char* why) {
    key[name] = value;
    EXPECT_THAT(VerificationKey::Create(key),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << name;
  };
  refused(rsa_.PublicJson(), "use", "enc", "use");
  refused(rsa_.PublicJson(), "kty", "oct", "kty");
  refused(rsa_.PublicJson(), "n", "AQAB", "n: expected");
  refused(rsa_.PublicJson(), "n", 7, "n: expected");
  refused(rsa_.PublicJson(), "n", "", "n: expected");
  refused(rsa_.PublicJson(), "n", std::string(20000, 'A') + "B", "n: expected");
  refused(rsa_.PublicJson(), "e", "AQ", "e: expected");
  refused(rsa_.PublicJson(), "e", "Ag", "e: expected");
  refused(rsa_.PublicJson(), "e", std::string(40, 'B'), "e: expected");
  refused(rsa_.PublicJson(), "kid", std::string(300, 'k'), "kid");
  refused(ec_.PublicJson(), "crv", "P-521", "crv");
  refused(ec_.PublicJson(), "x", "AQAB", "32 bytes");
  refused(ec_.PublicJson(), "y", ToBase64Url(std::string(32, '\1')),
          "no point of the curve");
  EXPECT_FALSE(
      VerificationKey::Create(SigningKey::Rsa("weak", 1024).PublicJson()).ok());
  EXPECT_FALSE(VerificationKey::Create(Json::array()).ok());
}

TEST_F(VerificationKeyTest, OfASetThoseThatServeAreTaken) {
  const Json set = {{"keys",
                     {rsa_.PublicJson(),
                      {{"kty", "oct"}, {"k", "AAAA"}},
                      7,
                      ec_.PublicJson()}}};
  ASSERT_OK_AND_ASSIGN(const auto keys, ParseKeySet(set.dump()));
  ASSERT_THAT(keys, SizeIs(2));
  EXPECT_EQ(keys[0].id(), "r");
  EXPECT_EQ(keys[1].id(), "e");
  for (const char* text :
       {"", "[]", "{}", R"({"keys":7})", R"({"keys":[]})",
        R"({"keys":[{"kty":"oct","k":"AAAA"}]})", R"({"keys":[)"}) {
    EXPECT_THAT(ParseKeySet(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("keys: ")))
        << text;
  }
}

}  // namespace
}  // namespace comera::server
