// Texts that others may carry but not change: a message and its signature.
#ifndef COMERA_COMMON_SEAL_H_
#define COMERA_COMMON_SEAL_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace comera {

// Returns `message` with its HMAC-SHA256, in the characters of URLs. Everybody
// can read the message; only holders of `key` can make or check the seal. A
// seal made for one purpose is none for another, even with the same key.
std::string Seal(absl::string_view key, absl::string_view purpose,
                 absl::string_view message);

// Returns the message of a text that Seal made with this key for this purpose;
// nothing for any other text, and with an empty key. Takes as long for a wrong
// signature as for a right one.
std::optional<std::string> Unseal(absl::string_view key,
                                  absl::string_view purpose,
                                  absl::string_view sealed);

// Returns a key derived from `key`, for one use that `label` names.
std::string DeriveKey(absl::string_view key, absl::string_view label);

}  // namespace comera

#endif  // COMERA_COMMON_SEAL_H_
