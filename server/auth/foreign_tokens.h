#ifndef COMERA_SERVER_AUTH_FOREIGN_TOKENS_H_
#define COMERA_SERVER_AUTH_FOREIGN_TOKENS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comera/v1/access_service.pb.h"

namespace comera::server {

// Tokens that somebody else makes and this server believes. Thread-safe; does
// not block.
class ForeignTokens {
 public:
  virtual ~ForeignTokens() = default;

  // Whether the credential has the form of such a token, good or bad.
  virtual bool HasForm(absl::string_view secret) const = 0;
  // Whether `name` could be the name of such a token.
  virtual bool IsName(absl::string_view name) const = 0;
  // What the token gives to whom. Unauthenticated: it is not good, or no
  // longer. Unavailable: what it takes to tell is not here yet.
  virtual absl::StatusOr<std::shared_ptr<const v1::Token>> Verify(
      absl::string_view secret) = 0;
  // A token that was verified, by its name. Unauthenticated: there is none, or
  // it has expired.
  virtual absl::StatusOr<std::shared_ptr<const v1::Token>> FindWorking(
      const std::string& name) const = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_FOREIGN_TOKENS_H_
