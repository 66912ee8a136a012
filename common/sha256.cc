// Computes SHA-256 with OpenSSL.

#include "common/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace comera {

Sha256Stream::Sha256Stream()
    : context_(EVP_MD_CTX_new(), [](void* context) {
        EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context));
      }) {
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_.get()), EVP_sha256(),
                    nullptr);
}

void Sha256Stream::Add(std::string_view data) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_.get()), data.data(),
                   data.size());
}

std::string Sha256Stream::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_.get()), digest, &size);
  return absl::BytesToHexString(
      std::string(reinterpret_cast<char*>(digest), size));
}

}  // namespace comera
