// Fuzzes what comes from strangers who show a token, and from an issuer: the
// first byte chooses which one the rest is.
#include <string>

#include "common/openid/code_flow.h"
#include "common/openid/json_web_token.h"
#include "common/openid/provider.h"
#include "server/auth/oidc/verification_key.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const int kind = input.Choose(3);
  if (kind == 0) {
    const std::string text = input.Part();
    const auto token = comera::ParseJsonWebToken(text);
    const auto keys = comera::server::ParseKeySet(input.Rest());
    if (!token.ok()) return 0;
    if (token->signed_text.size() + 2 > text.size() ||
        token->signature.empty() || !token->claims.is_object()) {
      comera::FuzzFailure("a token without a part");
    }
    if (!keys.ok()) return 0;
    for (const auto& key : *keys) key.Check(*token).IgnoreError();
  } else if (kind == 1) {
    const auto provider =
        comera::ParseProvider("https://id.example.com", input.Rest());
    if (provider.ok() && provider->keys_url.rfind("https://", 0) != 0) {
      comera::FuzzFailure("keys of a URL that others may answer");
    }
  } else {
    comera::OpenIdProvider provider;
    comera::CodeRequest request;
    request.state = "s";
    (void)comera::ReadCallback(provider, request, input.Rest());
  }
  return 0;
}
