#ifndef COMERA_SERVER_AUTH_TOKEN_STORE_H_
#define COMERA_SERVER_AUTH_TOKEN_STORE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/access_service.pb.h"
#include "common/clock.h"
#include "server/auth/foreign_tokens.h"
#include "server/auth/token_record.pb.h"
#include "server/store/job_store.h"

namespace comera::server {

// Tokens: secrets that users and workers show, of which only hashes are kept.
//
// A secret is `comera_{id}_{64 hexadecimal digits}`: 256 random bits, kept as
// their SHA-256 (nothing slower is needed for what cannot be guessed). It is
// found by its id and compared in constant time.
//
// Kept as documents of kind "token" in the job store. Thread-safe; does not
// block. Callbacks may come from the store's thread.
class TokenStore {
 public:
  using WriteDone = std::function<void(const absl::Status&)>;
  // Makes a batch durable, later.
  using Write = std::function<void(StoreBatch, WriteDone)>;
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  // `documents`: of kind "token"; DataLoss. `clock` must outlive the object,
  // and what `write` calls must too.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Load(
      const std::vector<Document>& documents, Clock* clock, Write write);

  // Takes over what the store has now, where another server writes it.
  // DataLoss: nothing changes.
  absl::Status Replace(const std::vector<Document>& documents);

  static constexpr char kKind[] = "token";

  // Whether a token was ever made: then calls need one, for good.
  bool required() const { return required_; }
  // Calls need a token although there is none yet.
  void RequireAlways() { required_ = always_ = true; }
  // Takes the tokens of somebody else too, from now on. Must outlive the
  // object; to be called before calls are served.
  void SetForeign(ForeignTokens* foreign) { foreign_ = foreign; }
  // Whether some token of an admin still works.
  bool HasAdmin() const;
  Clock* clock() const { return clock_; }

  // The token that this secret belongs to, as it was when it was made; its use
  // is noted. Unauthenticated: none, expired or revoked. Unavailable: whether
  // it is one of somebody else cannot be told yet.
  absl::StatusOr<std::shared_ptr<const v1::Token>> Verify(
      std::string_view secret);

  // The token `tokens/{token}` as it is now. Unauthenticated: there is none, or
  // it has expired or been revoked.
  absl::StatusOr<std::shared_ptr<const v1::Token>> FindWorking(
      const std::string& name) const;

  // Errors of AccessService.CreateToken; the answer comes once it is durable.
  // `keep`, if set, is given the secret before, and its error is the answer.
  void Create(const v1::CreateTokenRequest& request, const std::string& creator,
              Callback<v1::CreateTokenResponse> done,
              std::function<absl::Status(const std::string&)> keep = nullptr);
  // Errors of AccessService.RevokeToken. Holds at once.
  void Revoke(const std::string& name, Callback<v1::Token> done);
  std::vector<v1::Token> List() const;

 private:
  struct Entry {
    std::string secret_sha256;
    // Replaced when it changes, so that callers keep what they have.
    std::shared_ptr<const v1::Token> token;
    // Minutes since 1970; 0: never used.
    int64_t last_use_minute = 0;
  };

  TokenStore(Clock* clock, Write write)
      : clock_(clock), write_(std::move(write)) {}

  v1::Token Shown(const Entry& entry) const;
  static bool IsWorking(const Entry& entry, absl::Time now);
  bool IsWorkingAdmin(const Entry& entry, absl::Time now) const;
  Document ToDocument(const std::string& id, const Entry& entry) const;

  Clock* const clock_;
  const Write write_;
  // Null: there is nobody else.
  ForeignTokens* foreign_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> required_{false};
  std::atomic<bool> always_{false};
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_TOKEN_STORE_H_
