// Marks the calls that the HTTP port passes on, and recognises them.
#include "server/auth/forwarded_calls.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "common/log.h"

namespace comera::server {
namespace {

// Not ASCII alone: the names of certificates.
constexpr char kSecretKey[] = "comera-forwarded-secret";
constexpr char kPeerKey[] = "comera-forwarded-peer-bin";
constexpr char kNameKey[] = "comera-forwarded-name-bin";
constexpr size_t kSecretBytes = 32;

std::string Only(const grpc::ServerContextBase& context, const char* key) {
  const auto range = context.client_metadata().equal_range(key);
  if (range.first == range.second || std::next(range.first) != range.second) {
    return "";
  }
  return std::string(range.first->second.data(), range.first->second.size());
}

}  // namespace

ForwardedCalls::ForwardedCalls() {
  unsigned char bytes[kSecretBytes];
  CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1) << "no random numbers";
  secret_ = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

void ForwardedCalls::Mark(const Origin& origin,
                          grpc::ClientContext* context) const {
  context->AddMetadata(kSecretKey, secret_);
  context->AddMetadata(kPeerKey, origin.peer);
  context->AddMetadata(kNameKey, origin.certificate_name);
}

std::optional<ForwardedCalls::Origin> ForwardedCalls::Find(
    const grpc::ServerContextBase& context) const {
  const std::string secret = Only(context, kSecretKey);
  if (secret.size() != secret_.size() ||
      CRYPTO_memcmp(secret.data(), secret_.data(), secret.size()) != 0) {
    return std::nullopt;
  }
  return Origin{Only(context, kPeerKey), Only(context, kNameKey)};
}

std::string ForwardedCalls::Peer(const grpc::ServerContextBase& context) const {
  const auto origin = Find(context);
  return origin ? origin->peer : context.peer();
}

}  // namespace comera::server
