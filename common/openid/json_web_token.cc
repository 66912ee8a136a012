// Reads the parts of a JSON Web Token that anybody may have written.
#include "common/openid/json_web_token.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera {
namespace {

// Headers are flat, and claims nearly so.
constexpr int kMaxDepth = 8;
constexpr size_t kMaxKeyId = 256;
// The bytes of a signature by RSA with 8192 bits.
constexpr size_t kMaxSignature = 1024;

absl::Status Bad(absl::string_view why) {
  return absl::UnauthenticatedError(
      absl::StrCat("the token is no JSON Web Token that is taken here: ", why));
}

// The bytes of base64url without padding.
absl::StatusOr<std::string> Decode(absl::string_view part,
                                   absl::string_view name) {
  const bool good =
      !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
               c == '_';
      });
  std::string bytes;
  if (!good || !absl::WebSafeBase64Unescape(part, &bytes)) {
    return Bad(absl::StrCat("its ", name, " is not base64url"));
  }
  return bytes;
}

absl::StatusOr<nlohmann::json> DecodeObject(absl::string_view part,
                                            absl::string_view name) {
  ASSIGN_OR_RETURN(const std::string text, Decode(part, name));
  nlohmann::json json = ParseJson(text, kMaxDepth);
  if (!json.is_object()) {
    return Bad(absl::StrCat("its ", name, " is no JSON object"));
  }
  return json;
}

// A text of the header; empty: it has none of that name.
absl::StatusOr<std::string> HeaderText(const nlohmann::json& header,
                                       const char* name) {
  const auto found = header.find(name);
  if (found == header.end()) return std::string();
  if (!found->is_string()) {
    return Bad(absl::StrCat("`", name, "` of its header is no text"));
  }
  return found->get<std::string>();
}

absl::Status CheckHeader(const nlohmann::json& header) {
  if (header.contains("crit")) {
    return Bad("`crit` of its header asks for an extension");
  }
  ASSIGN_OR_RETURN(const std::string type, HeaderText(header, "typ"));
  // Others, such as logout tokens, are signed by the same keys.
  if (!type.empty() && !absl::EqualsIgnoreCase(type, "JWT") &&
      !absl::EqualsIgnoreCase(type, "at+jwt") &&
      !absl::EqualsIgnoreCase(type, "application/at+jwt")) {
    return Bad("`typ` of its header is neither JWT nor at+jwt");
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeJsonWebToken(absl::string_view text) {
  return absl::StartsWith(text, "eyJ") && absl::StrContains(text, '.');
}

absl::StatusOr<JsonWebToken> ParseJsonWebToken(absl::string_view text) {
  if (text.size() > kMaxJsonWebToken) {
    return Bad(absl::StrCat("it has ", text.size(), " bytes, of at most ",
                            kMaxJsonWebToken));
  }
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('.', 3));
  if (parts.size() != 3) return Bad("it has other than three parts");
  ASSIGN_OR_RETURN(const nlohmann::json header,
                   DecodeObject(parts[0], "header"));
  RETURN_IF_ERROR(CheckHeader(header));
  JsonWebToken token;
  ASSIGN_OR_RETURN(token.algorithm, HeaderText(header, "alg"));
  if (token.algorithm != "RS256" && token.algorithm != "PS256" &&
      token.algorithm != "ES256") {
    return Bad("`alg` of its header is none of RS256, PS256 and ES256");
  }
  ASSIGN_OR_RETURN(token.key_id, HeaderText(header, "kid"));
  if (token.key_id.size() > kMaxKeyId) {
    return Bad(absl::StrCat("`kid` of its header has more than ", kMaxKeyId,
                            " bytes"));
  }
  ASSIGN_OR_RETURN(token.claims, DecodeObject(parts[1], "payload"));
  ASSIGN_OR_RETURN(token.signature, Decode(parts[2], "signature"));
  if (token.signature.size() > kMaxSignature) {
    return Bad(
        absl::StrCat("its signature has more than ", kMaxSignature, " bytes"));
  }
  token.signed_text =
      std::string(text.substr(0, parts[0].size() + 1 + parts[1].size()));
  return token;
}

}  // namespace comera
