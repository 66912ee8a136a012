// Signs messages with HMAC-SHA256 and checks the signatures.

#include "common/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace comera {
namespace {

constexpr char kBetween = '.';

// The purpose has no zero byte, so that no two pairs give the same bytes.
std::string Sign(absl::string_view key, absl::string_view purpose,
                 absl::string_view message) {
  const std::string signed_bytes =
      absl::StrCat(purpose, absl::string_view("\0", 1), message);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(signed_bytes.data()),
       signed_bytes.size(), digest, &size);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

}  // namespace

std::string Seal(absl::string_view key, absl::string_view purpose,
                 absl::string_view message) {
  return absl::StrCat(absl::WebSafeBase64Escape(message),
                      absl::string_view(&kBetween, 1),
                      absl::WebSafeBase64Escape(Sign(key, purpose, message)));
}

std::optional<std::string> Unseal(absl::string_view key,
                                  absl::string_view purpose,
                                  absl::string_view sealed) {
  const size_t between = sealed.find(kBetween);
  std::string message;
  if (key.empty() || between == absl::string_view::npos ||
      !absl::WebSafeBase64Unescape(sealed.substr(0, between), &message)) {
    return std::nullopt;
  }
  // The texts are compared, not the bytes that they stand for: base64 has
  // several spellings of the same bytes, with spaces, with padding.
  const std::string right = Seal(key, purpose, message);
  if (sealed.size() != right.size() ||
      CRYPTO_memcmp(sealed.data(), right.data(), right.size()) != 0) {
    return std::nullopt;
  }
  return message;
}

std::string DeriveKey(absl::string_view key, absl::string_view label) {
  return Sign(key, "key", label);
}

}  // namespace comera
