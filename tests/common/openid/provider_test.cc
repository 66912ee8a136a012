// Tests what is believed of a provider's description of itself.
#include "common/openid/provider.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace comera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kIssuer[] = "https://id.example.com/realm";

Json Description() {
  return {{"issuer", kIssuer},
          {"authorization_endpoint", "https://id.example.com/a"},
          {"token_endpoint", "https://id.example.com/t"},
          {"jwks_uri", "https://keys.example.com/k"},
          {"scopes_supported", {"openid", 7, "groups"}}};
}

TEST(ProviderTest, ADescriptionIsRead) {
  EXPECT_EQ(DiscoveryUrl(kIssuer),
            "https://id.example.com/realm/.well-known/openid-configuration");
  EXPECT_EQ(DiscoveryUrl("https://id.example.com/"),
            "https://id.example.com/.well-known/openid-configuration");
  ASSERT_OK_AND_ASSIGN(const OpenIdProvider provider,
                       ParseProvider(kIssuer, Description().dump()));
  EXPECT_EQ(provider.keys_url, "https://keys.example.com/k");
  EXPECT_THAT(provider.scopes, ElementsAre("openid", "groups"));
  EXPECT_FALSE(provider.plain_http());
}

TEST(ProviderTest, OthersDescriptionsAreRefused) {
  const auto refused = [](const char* name, const Json& value,
                          const std::string& why) {
    Json json = Description();
    json[name] = value;
    EXPECT_THAT(ParseProvider(kIssuer, json.dump()),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(why)));
  };
  refused("issuer", "https://id.example.com/realm/", "another issuer");
  refused("issuer", 7, "another issuer");
  for (const char* name :
       {"authorization_endpoint", "token_endpoint", "jwks_uri"}) {
    refused(name, 7, name);
    refused(name, "http://id.example.com/a", name);
    // An issuer of https must not lead to this machine's own services.
    refused(name, "http://127.0.0.1/a", name);
    refused(name, "file:///etc/passwd", name);
    refused(name, "https://", name);
    refused(name, "https://a b", name);
    refused(name, "https://" + std::string(2000, 'a'), name);
  }
  EXPECT_THAT(ParseProvider(kIssuer, "[]"),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace comera
