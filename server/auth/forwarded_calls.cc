// Marks the calls that the HTTP port passes on, and recognises them.
#include "server/auth/forwarded_calls.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <utility>

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

bool SameSecret(const std::string& shown, const std::string& secret) {
  return !secret.empty() && shown.size() == secret.size() &&
         CRYPTO_memcmp(shown.data(), secret.data(), shown.size()) == 0;
}

}  // namespace

ForwardedCalls::ForwardedCalls(std::string leaders_secret)
    : leaders_secret_(std::move(leaders_secret)) {
  unsigned char bytes[kSecretBytes];
  CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1) << "no random numbers";
  secret_ = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

void ForwardedCalls::Mark(const std::string& secret, const Origin& origin,
                          grpc::ClientContext* context) {
  context->AddMetadata(kSecretKey, secret);
  context->AddMetadata(kPeerKey, origin.peer);
  context->AddMetadata(kNameKey, origin.certificate_name);
}

std::optional<ForwardedCalls::Origin> ForwardedCalls::Find(
    const grpc::ServerContextBase& context) const {
  const std::string secret = Only(context, kSecretKey);
  if (!SameSecret(secret, secret_) && !SameSecret(secret, leaders_secret_)) {
    return std::nullopt;
  }
  return Origin{Only(context, kPeerKey), Only(context, kNameKey)};
}

bool ForwardedCalls::IsMark(absl::string_view key) {
  return key == kSecretKey || key == kPeerKey || key == kNameKey;
}

bool ForwardedCalls::IsMarked(const grpc::ServerContextBase& context) {
  return context.client_metadata().count(kSecretKey) > 0;
}

ForwardedCalls::Origin ForwardedCalls::OriginOf(
    const grpc::ServerContextBase& context) const {
  const auto origin = Find(context);
  return origin ? *origin : Origin{context.peer(), CertificateName(context)};
}

std::string ForwardedCalls::CertificateName(
    const grpc::ServerContextBase& context) {
  const auto authentication = context.auth_context();
  if (authentication == nullptr || !authentication->IsPeerAuthenticated()) {
    return "";
  }
  const auto names = authentication->FindPropertyValues("x509_common_name");
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

std::string ForwardedCalls::Peer(const grpc::ServerContextBase& context) const {
  const auto origin = Find(context);
  return origin ? origin->peer : context.peer();
}

}  // namespace comera::server
