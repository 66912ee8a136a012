// Makes keys of OpenSSL from JSON Web Keys, and checks signatures with them.
#include "server/auth/oidc/verification_key.h"

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::server {
namespace {

constexpr size_t kMaxKeys = 64;
constexpr size_t kMaxKeyId = 256;
constexpr int kMinRsaBits = 2048;
constexpr size_t kMaxRsaBytes = 1024;
constexpr size_t kMaxExponentBytes = 8;
constexpr size_t kCoordinateBytes = 32;

struct Free {
  void operator()(BIGNUM* one) const { BN_free(one); }
  void operator()(OSSL_PARAM_BLD* one) const { OSSL_PARAM_BLD_free(one); }
  void operator()(OSSL_PARAM* one) const { OSSL_PARAM_free(one); }
  void operator()(EVP_PKEY_CTX* one) const { EVP_PKEY_CTX_free(one); }
  void operator()(EVP_MD_CTX* one) const { EVP_MD_CTX_free(one); }
  void operator()(ECDSA_SIG* one) const { ECDSA_SIG_free(one); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

absl::Status Bad(absl::string_view why) {
  // Nobody else shall take this library's errors for its own.
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat("key: ", why));
}

// A text of the key; empty: it has none of that name.
std::string TextOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>()
                                                   : std::string();
}

// Bytes of base64url; empty: it is none.
std::string BytesOf(const nlohmann::json& json, const char* name) {
  const std::string text = TextOf(json, name);
  std::string bytes;
  const bool good = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
  if (!good || !absl::WebSafeBase64Unescape(text, &bytes)) return "";
  return bytes;
}

const unsigned char* Data(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Owned<BIGNUM> Number(const std::string& bytes) {
  return Owned<BIGNUM>(
      BN_bin2bn(Data(bytes), static_cast<int>(bytes.size()), nullptr));
}

// A public key of this kind; null: there can be none of these numbers.
EVP_PKEY* FromParameters(const char* kind, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder));
  const Owned<EVP_PKEY_CTX> context(
      EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || context == nullptr ||
      EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY,
                        parameters.get()) != 1) {
    return nullptr;
  }
  return key;
}

// The two numbers of 32 bytes of a JSON Web Signature as OpenSSL has them;
// empty: they are none.
std::string ToDer(const std::string& signature) {
  if (signature.size() != 2 * kCoordinateBytes) return "";
  const Owned<ECDSA_SIG> pair(ECDSA_SIG_new());
  BIGNUM* const r = BN_bin2bn(Data(signature), kCoordinateBytes, nullptr);
  BIGNUM* const s =
      BN_bin2bn(Data(absl::string_view(signature).substr(kCoordinateBytes)),
                kCoordinateBytes, nullptr);
  if (pair == nullptr || ECDSA_SIG_set0(pair.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return "";
  }
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(pair.get(), &der);
  if (size <= 0) return "";
  std::string result(reinterpret_cast<const char*>(der),
                     static_cast<size_t>(size));
  OPENSSL_free(der);
  return result;
}

}  // namespace

absl::StatusOr<VerificationKey::Key> VerificationKey::MakeRsa(
    const nlohmann::json& json) {
  const std::string modulus = BytesOf(json, "n");
  const std::string exponent = BytesOf(json, "e");
  const Owned<BIGNUM> n = Number(modulus);
  const Owned<BIGNUM> e = Number(exponent);
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (n == nullptr || e == nullptr || builder == nullptr ||
      modulus.size() > kMaxRsaBytes || BN_num_bits(n.get()) < kMinRsaBits ||
      !BN_is_odd(n.get())) {
    return Bad("n: expected an odd number of 2048 to 8192 bits");
  }
  if (exponent.size() > kMaxExponentBytes || !BN_is_odd(e.get()) ||
      BN_is_one(e.get())) {
    return Bad("e: expected an odd number from 3, of at most 64 bits");
  }
  EVP_PKEY* key = nullptr;
  if (OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) ==
          1 &&
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) ==
          1) {
    key = FromParameters("RSA", builder.get());
  }
  if (key == nullptr) return Bad("OpenSSL does not take n and e");
  return Key(key, FreeKey());
}

absl::StatusOr<VerificationKey::Key> VerificationKey::MakeP256(
    const nlohmann::json& json) {
  if (TextOf(json, "crv") != "P-256") return Bad("crv: expected P-256");
  const std::string x = BytesOf(json, "x");
  const std::string y = BytesOf(json, "y");
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) {
    return Bad("x, y: expected 32 bytes each");
  }
  const std::string point = absl::StrCat("\x04", x, y);
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  EVP_PKEY* key = nullptr;
  if (builder != nullptr &&
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME,
                                      "prime256v1", 0) == 1 &&
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                       point.data(), point.size()) == 1) {
    key = FromParameters("EC", builder.get());
  }
  if (key == nullptr) return Bad("x, y: this is no point of the curve");
  Key owned(key, FreeKey());
  const Owned<EVP_PKEY_CTX> context(
      EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  if (context == nullptr || EVP_PKEY_public_check(context.get()) != 1) {
    return Bad("x, y: this is no point of the curve");
  }
  return owned;
}

absl::StatusOr<VerificationKey> VerificationKey::Create(
    const nlohmann::json& json) {
  if (!json.is_object()) return Bad("expected an object");
  const std::string use = TextOf(json, "use");
  if (!use.empty() && use != "sig") return Bad("use: expected sig");
  VerificationKey key;
  key.id_ = TextOf(json, "kid");
  if (key.id_.size() > kMaxKeyId) return Bad("kid: too long");
  key.algorithm_ = TextOf(json, "alg");
  key.text_ = JsonText(json);
  const std::string kind = TextOf(json, "kty");
  if (kind == "RSA") {
    key.is_rsa_ = true;
    ASSIGN_OR_RETURN(key.key_, MakeRsa(json));
  } else if (kind == "EC") {
    ASSIGN_OR_RETURN(key.key_, MakeP256(json));
  } else {
    return Bad("kty: expected RSA or EC");
  }
  return key;
}

bool VerificationKey::Fits(const std::string& algorithm) const {
  if (!algorithm_.empty() && algorithm_ != algorithm) return false;
  return is_rsa_ ? algorithm == "RS256" || algorithm == "PS256"
                 : algorithm == "ES256";
}

absl::Status VerificationKey::Check(const JsonWebToken& token) const {
  const absl::Status wrong =
      absl::UnauthenticatedError("the token's signature is wrong");
  // Or else a key of one kind could be used as one of another.
  if (!Fits(token.algorithm)) return wrong;
  const std::string signature =
      is_rsa_ ? token.signature : ToDer(token.signature);
  if (signature.empty()) return wrong;
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* parameters = nullptr;
  bool good =
      context != nullptr &&
      EVP_DigestVerifyInit_ex(context.get(), &parameters, "SHA256", nullptr,
                              nullptr, key_.get(), nullptr) == 1;
  if (good && token.algorithm == "PS256") {
    good =
        EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) == 1 &&
        EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, RSA_PSS_SALTLEN_DIGEST) ==
            1;
  }
  good = good && EVP_DigestVerify(context.get(), Data(signature),
                                  signature.size(), Data(token.signed_text),
                                  token.signed_text.size()) == 1;
  ERR_clear_error();
  return good ? absl::OkStatus() : wrong;
}

absl::StatusOr<std::vector<VerificationKey>> ParseKeySet(
    absl::string_view text) {
  const nlohmann::json json = ParseJson(text);
  const auto found = json.is_object() ? json.find("keys") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_array()) {
    return absl::InvalidArgumentError(
        "keys: expected an object with an array `keys`");
  }
  std::vector<VerificationKey> keys;
  absl::Status last;
  for (const nlohmann::json& one : *found) {
    if (keys.size() == kMaxKeys) break;
    auto key = VerificationKey::Create(one);
    if (key.ok()) {
      keys.push_back(*std::move(key));
    } else {
      last = key.status();
    }
  }
  if (keys.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keys: none serves",
        last.ok() ? "" : "; the last: ", last.ok() ? "" : last.message()));
  }
  return keys;
}

}  // namespace comera::server
