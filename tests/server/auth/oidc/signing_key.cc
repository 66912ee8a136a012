// Makes keys and signs tokens with OpenSSL.
#include "tests/server/auth/oidc/signing_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/log.h"

namespace comera {
namespace {

// The two numbers of a signature in DER, of 32 bytes each.
std::string ToPair(const std::string& der) {
  const auto* data = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* const pair =
      d2i_ECDSA_SIG(nullptr, &data, static_cast<long>(der.size()));
  CHECK(pair != nullptr);
  std::string bytes(64, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(bytes.data());
  CHECK(BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, 32) == 32);
  CHECK(BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + 32, 32) == 32);
  ECDSA_SIG_free(pair);
  return bytes;
}

}  // namespace

std::string ToBase64Url(absl::string_view text) {
  return absl::WebSafeBase64Escape(text);
}

SigningKey SigningKey::Rsa(const std::string& id, int bits) {
  return SigningKey(
      EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<size_t>(bits)),
      id);
}

SigningKey SigningKey::Elliptic(const std::string& id,
                                const std::string& curve) {
  return SigningKey(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", curve.c_str()),
                    id);
}

std::string SigningKey::Number(const char* name, size_t size) const {
  BIGNUM* number = nullptr;
  CHECK(EVP_PKEY_get_bn_param(key_.get(), name, &number) == 1);
  if (size == 0) size = static_cast<size_t>(BN_num_bytes(number));
  std::string bytes(size, '\0');
  CHECK(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()),
                     static_cast<int>(size)) == static_cast<int>(size));
  BN_free(number);
  return ToBase64Url(bytes);
}

nlohmann::json SigningKey::PublicJson() const {
  if (EVP_PKEY_is_a(key_.get(), "RSA")) {
    return {{"kty", "RSA"},
            {"kid", id_},
            {"n", Number(OSSL_PKEY_PARAM_RSA_N, 0)},
            {"e", Number(OSSL_PKEY_PARAM_RSA_E, 0)}};
  }
  return {{"kty", "EC"},
          {"kid", id_},
          {"crv", "P-256"},
          {"x", Number(OSSL_PKEY_PARAM_EC_PUB_X, 32)},
          {"y", Number(OSSL_PKEY_PARAM_EC_PUB_Y, 32)}};
}

std::string SigningKey::Sign(const std::string& algorithm,
                             const nlohmann::json& claims) const {
  return SignAs({{"alg", algorithm}, {"typ", "JWT"}, {"kid", id_}}, algorithm,
                claims);
}

std::string SigningKey::SignAs(const nlohmann::json& header,
                               const std::string& algorithm,
                               const nlohmann::json& claims) const {
  const std::string text = absl::StrCat(ToBase64Url(JsonText(header)), ".",
                                        ToBase64Url(JsonText(claims)));
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  EVP_PKEY_CTX* parameters = nullptr;
  CHECK(EVP_DigestSignInit_ex(context, &parameters, "SHA256", nullptr, nullptr,
                              key_.get(), nullptr) == 1);
  if (algorithm == "PS256") {
    CHECK(EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) == 1);
    CHECK(EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters,
                                           RSA_PSS_SALTLEN_DIGEST) == 1);
  }
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  CHECK(EVP_DigestSign(context, nullptr, &size, data, text.size()) == 1);
  std::string signature(size, '\0');
  CHECK(EVP_DigestSign(context,
                       reinterpret_cast<unsigned char*>(signature.data()),
                       &size, data, text.size()) == 1);
  signature.resize(size);
  EVP_MD_CTX_free(context);
  if (EVP_PKEY_is_a(key_.get(), "EC")) signature = ToPair(signature);
  return absl::StrCat(text, ".", ToBase64Url(signature));
}

}  // namespace comera
