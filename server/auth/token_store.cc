// Creates, revokes and finds tokens, and keeps them in the job store.
#include "server/auth/token_store.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/auth/token_roles.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr std::string_view kPrefix = "comera_";
constexpr absl::string_view kNamePrefix = "tokens/";
constexpr size_t kIdLength = 12;
constexpr size_t kSecretBytes = 32;
constexpr size_t kMaxUser = 64;
constexpr int kMaxQueueRoles = 1000;
constexpr size_t kMaxTokens = 100000;
constexpr absl::Duration kMaxLifetime = absl::Hours(24 * 3653);

std::string Sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

absl::StatusOr<std::string> RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                 static_cast<int>(size)) != 1) {
    return absl::InternalError("the system gives no random numbers");
  }
  return bytes;
}

absl::Status Unknown() {
  return absl::UnauthenticatedError(
      "the token is not known, expired or revoked");
}

// Id and the secret's bytes; false: not one of ours.
bool ParseSecret(std::string_view secret, std::string* id, std::string* bytes) {
  if (secret.size() != kPrefix.size() + kIdLength + 1 + 2 * kSecretBytes ||
      secret.substr(0, kPrefix.size()) != kPrefix ||
      secret[kPrefix.size() + kIdLength] != '_') {
    return false;
  }
  *id = std::string(secret.substr(kPrefix.size(), kIdLength));
  const std::string_view hex = secret.substr(kPrefix.size() + kIdLength + 1);
  if (!std::all_of(hex.begin(), hex.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      })) {
    return false;
  }
  *bytes = absl::HexStringToBytes(absl::string_view(hex.data(), hex.size()));
  return true;
}

bool IsRole(int role) {
  return role == v1::ROLE_VIEWER || role == v1::ROLE_USER ||
         role == v1::ROLE_ADMIN;
}

const std::string& WorkerNameOf(const v1::CreateTokenRequest& request) {
  return request.worker_name().empty() ? request.user() : request.worker_name();
}

absl::Status Validate(const v1::CreateTokenRequest& request) {
  const std::string& user = request.user();
  if (user.empty() || user.size() > kMaxUser ||
      !std::all_of(user.begin(), user.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '_' || c == '-' || c == '@';
      })) {
    return absl::InvalidArgumentError("user: must match [a-z0-9._@-]{1,64}");
  }
  const bool has_role = request.role() != v1::ROLE_UNSPECIFIED;
  if (request.worker() && (has_role || request.queue_roles_size() > 0)) {
    return absl::InvalidArgumentError("role: a worker's token has none");
  }
  if (!request.worker() && !request.worker_name().empty()) {
    return absl::InvalidArgumentError(
        "worker_name: only a worker's token has one");
  }
  if (request.worker() && !IsWorkerPattern(WorkerNameOf(request))) {
    return absl::InvalidArgumentError(
        request.worker_name().empty()
            ? "user: a worker's token belongs to the worker of that name, "
              "[a-z0-9-]{1,63}, unless worker_name (--worker-name) names "
              "another"
            : "worker_name: must match [a-z0-9-]{1,63}, or be the beginning "
              "of such names and a *");
  }
  if (has_role && !IsRole(request.role())) {
    return absl::InvalidArgumentError("role: must be viewer, user or admin");
  }
  if (!request.worker() && !has_role && request.queue_roles_size() == 0) {
    return absl::InvalidArgumentError("role: missing");
  }
  if (request.queue_roles_size() > kMaxQueueRoles) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue_roles: more than ", kMaxQueueRoles));
  }
  for (const auto& [queue, role] : request.queue_roles()) {
    if (!IsResourceId(queue)) {
      return absl::InvalidArgumentError(
          "queue_roles: queues are named [a-z0-9-]{1,63}");
    }
    if (!IsRole(role)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "queue_roles: ", queue, ": must be viewer, user or admin"));
    }
  }
  if (request.has_lifetime()) {
    const absl::Duration lifetime = FromProtoDuration(request.lifetime());
    if (lifetime <= absl::ZeroDuration() || lifetime > kMaxLifetime) {
      return absl::InvalidArgumentError(
          "lifetime: must be above 0 and at most 10 years");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Load(
    const std::vector<Document>& documents, Clock* clock, Write write) {
  std::unique_ptr<TokenStore> store(new TokenStore(clock, std::move(write)));
  RETURN_IF_ERROR(store->Replace(documents));
  return store;
}

absl::Status TokenStore::Replace(const std::vector<Document>& documents) {
  std::map<std::string, Entry> entries;
  for (const Document& document : documents) {
    TokenRecord record;
    if (!document.body || !record.ParseFromString(*document.body) ||
        record.secret_sha256().size() != SHA256_DIGEST_LENGTH) {
      return absl::DataLossError(
          absl::StrCat("token ", document.name, " is damaged"));
    }
    Entry& entry = entries[document.name];
    entry.secret_sha256 = record.secret_sha256();
    if (record.token().has_last_use_time()) {
      entry.last_use_minute = record.token().last_use_time().seconds() / 60;
    }
    entry.token = std::make_shared<const v1::Token>(record.token());
  }
  std::lock_guard<std::mutex> lock(mutex_);
  required_ = always_ || !entries.empty();
  entries_ = std::move(entries);
  return absl::OkStatus();
}

bool TokenStore::IsWorking(const Entry& entry, absl::Time now) {
  const v1::Token& token = *entry.token;
  return !token.has_revoke_time() &&
         (!token.has_expire_time() || now < FromTimestamp(token.expire_time()));
}

bool TokenStore::IsWorkingAdmin(const Entry& entry, absl::Time now) const {
  return entry.token->role() == v1::ROLE_ADMIN && IsWorking(entry, now);
}

bool TokenStore::HasAdmin() const {
  const absl::Time now = clock_->Now();
  std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return IsWorkingAdmin(entry.second, now);
  });
}

absl::StatusOr<std::shared_ptr<const v1::Token>> TokenStore::Verify(
    std::string_view secret) {
  if (foreign_ != nullptr &&
      foreign_->HasForm(absl::string_view(secret.data(), secret.size()))) {
    return foreign_->Verify(absl::string_view(secret.data(), secret.size()));
  }
  std::string id, bytes;
  if (!ParseSecret(secret, &id, &bytes)) return Unknown();
  const std::string hash = Sha256(bytes);
  const absl::Time now = clock_->Now();
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Unknown();
  Entry& entry = found->second;
  if (CRYPTO_memcmp(hash.data(), entry.secret_sha256.data(), hash.size()) !=
      0) {
    return Unknown();
  }
  if (!IsWorking(entry, now)) return Unknown();
  const int64_t minute = absl::ToUnixSeconds(now) / 60;
  if (minute > entry.last_use_minute) {
    entry.last_use_minute = minute;
    StoreBatch batch;
    batch.documents.push_back(ToDocument(id, entry));
    // Only for people: nothing waits for it.
    write_(std::move(batch), [](const absl::Status&) {});
  }
  return entry.token;
}

absl::StatusOr<std::shared_ptr<const v1::Token>> TokenStore::FindWorking(
    const std::string& name) const {
  if (foreign_ != nullptr && foreign_->IsName(name)) {
    return foreign_->FindWorking(name);
  }
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, kNamePrefix)) return Unknown();
  const absl::Time now = clock_->Now();
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(std::string(id));
  if (found == entries_.end() || !IsWorking(found->second, now)) {
    return Unknown();
  }
  return found->second.token;
}

v1::Token TokenStore::Shown(const Entry& entry) const {
  v1::Token token = *entry.token;
  if (entry.last_use_minute > 0) {
    token.mutable_last_use_time()->set_seconds(entry.last_use_minute * 60);
  }
  return token;
}

Document TokenStore::ToDocument(const std::string& id,
                                const Entry& entry) const {
  TokenRecord record;
  *record.mutable_token() = Shown(entry);
  record.set_secret_sha256(entry.secret_sha256);
  return {kKind, id, record.SerializeAsString()};
}

void TokenStore::Create(const v1::CreateTokenRequest& request,
                        const std::string& creator,
                        Callback<v1::CreateTokenResponse> done,
                        std::function<absl::Status(const std::string&)> keep) {
  if (absl::Status status = Validate(request); !status.ok()) {
    return done(status);
  }
  const auto random = RandomBytes(kSecretBytes + kIdLength);
  if (!random.ok()) return done(random.status());
  static constexpr char kBase32[] = "abcdefghijklmnopqrstuvwxyz234567";
  std::string id;
  for (size_t i = 0; i < kIdLength; ++i) {
    id.push_back(
        kBase32[static_cast<unsigned char>((*random)[kSecretBytes + i]) & 31]);
  }
  const std::string bytes = random->substr(0, kSecretBytes);
  const absl::Time now = clock_->Now();
  v1::Token token;
  token.set_name(absl::StrCat(kNamePrefix, id));
  token.set_user(request.user());
  token.set_role(request.role());
  *token.mutable_queue_roles() = request.queue_roles();
  token.set_worker(request.worker());
  if (request.worker()) token.set_worker_name(WorkerNameOf(request));
  *token.mutable_create_time() = ToTimestamp(now);
  if (request.has_lifetime()) {
    *token.mutable_expire_time() =
        ToTimestamp(now + FromProtoDuration(request.lifetime()));
  }
  token.set_creator(creator);
  v1::CreateTokenResponse response;
  *response.mutable_token() = token;
  response.set_secret(
      absl::StrCat(absl::string_view(kPrefix.data(), kPrefix.size()), id, "_",
                   absl::BytesToHexString(bytes)));
  Entry entry;
  entry.secret_sha256 = Sha256(bytes);
  entry.token = std::make_shared<const v1::Token>(std::move(token));

  absl::Status refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!required_ && request.role() != v1::ROLE_ADMIN) {
      refused = absl::InvalidArgumentError(
          "role: the first token must be an admin's: from then on every call "
          "needs one");
    } else if (entries_.size() >= kMaxTokens || entries_.count(id) > 0) {
      refused = absl::ResourceExhaustedError("too many tokens");
    }
  }
  if (refused.ok() && keep) refused = keep(response.secret());
  if (!refused.ok()) return done(refused);
  StoreBatch batch;
  batch.documents.push_back(ToDocument(id, entry));
  write_(std::move(batch), [this, id, entry, response, done = std::move(done)](
                               const absl::Status& status) {
    if (!status.ok()) return done(absl::UnavailableError(status.message()));
    {
      std::lock_guard<std::mutex> lock(mutex_);
      entries_[id] = entry;
      required_ = true;
    }
    done(response);
  });
}

void TokenStore::Revoke(const std::string& name, Callback<v1::Token> done) {
  const absl::Time now = clock_->Now();
  const std::string id = name.substr(0, kNamePrefix.size()) == kNamePrefix
                             ? name.substr(kNamePrefix.size())
                             : "";
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    lock.unlock();
    return done(absl::NotFoundError(absl::StrCat("no token ", name)));
  }
  Entry& entry = found->second;
  if (IsWorkingAdmin(entry, now)) {
    int admins = 0;
    for (const auto& [other, one] : entries_) {
      if (IsWorkingAdmin(one, now)) ++admins;
    }
    if (admins == 1) {
      lock.unlock();
      return done(absl::FailedPreconditionError(absl::StrCat(
          name, " is the last admin token that works: make another first")));
    }
  }
  if (!entry.token->has_revoke_time()) {
    v1::Token token = *entry.token;
    *token.mutable_revoke_time() = ToTimestamp(now);
    entry.token = std::make_shared<const v1::Token>(std::move(token));
  }
  StoreBatch batch;
  batch.documents.push_back(ToDocument(id, entry));
  const v1::Token shown = Shown(entry);
  write_(std::move(batch),
         [shown, done = std::move(done)](const absl::Status& status) {
           if (!status.ok()) {
             return done(absl::UnavailableError(status.message()));
           }
           done(shown);
         });
}

std::vector<v1::Token> TokenStore::List() const {
  std::vector<v1::Token> tokens;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [id, entry] : entries_) tokens.push_back(Shown(entry));
  }
  std::sort(
      tokens.begin(), tokens.end(), [](const v1::Token& a, const v1::Token& b) {
        return FromTimestamp(a.create_time()) < FromTimestamp(b.create_time());
      });
  return tokens;
}

}  // namespace comera::server
