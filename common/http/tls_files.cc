// Checks that PEM files are readable and fit together.
#include "common/http/tls_files.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::StatusOr<std::string> Read(const std::string& flag,
                                 const std::string& path) {
  absl::StatusOr<std::string> contents = ReadFile(path);
  if (contents.ok()) return contents;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", contents.status().message()));
}

Bio ToBio(const std::string& contents) {
  return Bio(
      BIO_new_mem_buf(contents.data(), static_cast<int>(contents.size())),
      BIO_free_all);
}

// A key with a passphrase is none that a daemon can use.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::StatusOr<Certificate> ReadCertificate(const std::string& flag,
                                            const std::string& path) {
  ASSIGN_OR_RETURN(const std::string contents, Read(flag, path));
  Certificate certificate(
      PEM_read_bio_X509(ToBio(contents).get(), nullptr, NoPassphrase, nullptr),
      X509_free);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": ", path, " holds no PEM certificate"));
  }
  return certificate;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  const std::string cert_flag = files.flags + "cert";
  const std::string key_flag = files.flags + "key";
  if (files.key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_flag, ": missing, ", cert_flag, " needs its key"));
  }
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ReadCertificate(cert_flag, files.certificate));
  ASSIGN_OR_RETURN(const std::string contents, Read(key_flag, files.key));
  const Key key(PEM_read_bio_PrivateKey(ToBio(contents).get(), nullptr,
                                        NoPassphrase, nullptr),
                EVP_PKEY_free);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_flag, ": ", files.key,
                     " holds no PEM key, or one with a passphrase"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        key_flag, ": ", files.key, " is not the key of ", files.certificate));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(cert_flag, ": ", files.certificate, " has expired"));
  }
  if (!files.client_ca.empty()) {
    RETURN_IF_ERROR(
        ReadCertificate(files.flags + "client_ca", files.client_ca).status());
  }
  return absl::OkStatus();
}

}  // namespace comera
