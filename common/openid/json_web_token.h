#ifndef COMERA_COMMON_OPENID_JSON_WEB_TOKEN_H_
#define COMERA_COMMON_OPENID_JSON_WEB_TOKEN_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace comera {

// The longest JSON Web Token that is read. gRPC takes 8 KiB of metadata in all.
inline constexpr size_t kMaxJsonWebToken = 7 << 10;

// A signed JSON Web Token (RFC 7519 in the compact form of RFC 7515) whose
// parts were read and whose signature nobody has checked.
struct JsonWebToken {
  // RS256, PS256 or ES256: there are no others.
  std::string algorithm;
  // Name of the key, as the issuer calls it; empty: the token names none.
  std::string key_id;
  // The text that the signature is made of.
  std::string signed_text;
  // The signature's bytes.
  std::string signature;
  // An object.
  nlohmann::json claims;
};

// Whether the text has the form of such a token, good or bad: no other
// credential of ours begins as JSON in base64 does.
bool LooksLikeJsonWebToken(absl::string_view text);

// Unauthenticated: the text is longer than kMaxJsonWebToken, is no such token,
// is signed by another algorithm (`none` and the symmetric ones among them), is
// of another type, or has a header that has to be understood and is not. No
// message quotes the text.
absl::StatusOr<JsonWebToken> ParseJsonWebToken(absl::string_view text);

}  // namespace comera

#endif  // COMERA_COMMON_OPENID_JSON_WEB_TOKEN_H_
