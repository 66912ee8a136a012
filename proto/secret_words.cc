// Recognises names and texts of secrets, so that jobs do not publish them.

#include "proto/secret_words.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace comera {
namespace {

// Words that betray a secret anywhere in a name.
constexpr std::string_view kWords[] = {
    "password", "passwd",  "passphrase", "secret",      "credential", "apikey",
    "api_key",  "api-key", "privatekey", "private_key", "private-key"};
constexpr std::string_view kToken = "token";
// A token is "comera_", the id, "_" and a secret; half of its digits are enough
// to recognise it.
constexpr size_t kIdLength = 12;
constexpr size_t kMinDigits = 32;
constexpr std::string_view kPrefix = "comera_";

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

}  // namespace

bool NamesSecret(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (std::string_view word : kWords) {
    if (lower.find(word) != std::string::npos) return true;
  }
  for (size_t at = lower.find(kToken); at != std::string::npos;
       at = lower.find(kToken, at + 1)) {
    const size_t end = at + kToken.size();
    if (end == lower.size() || !IsLetter(lower[end])) return true;
  }
  return false;
}

bool LooksLikeSecret(std::string_view text) {
  if (text.find("PRIVATE KEY-----") != std::string_view::npos) return true;
  for (size_t at = text.find(kPrefix); at != std::string_view::npos;
       at = text.find(kPrefix, at + 1)) {
    const std::string_view rest = text.substr(at + kPrefix.size());
    if (rest.size() < kIdLength + 1 + kMinDigits || rest[kIdLength] != '_') {
      continue;
    }
    const std::string_view digits = rest.substr(kIdLength + 1, kMinDigits);
    if (std::all_of(digits.begin(), digits.end(),
                    [](unsigned char c) { return std::isxdigit(c); })) {
      return true;
    }
  }
  return false;
}

}  // namespace comera
