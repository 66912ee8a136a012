// Makes gRPC credentials from PEM files and checks that they fit together.
#include "server/auth/tls_files.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace comera::server {
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
  if (files.key.empty()) {
    return absl::InvalidArgumentError(
        "tls_key: missing, tls_cert needs its key");
  }
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ReadCertificate("tls_cert", files.certificate));
  ASSIGN_OR_RETURN(const std::string contents, Read("tls_key", files.key));
  const Key key(PEM_read_bio_PrivateKey(ToBio(contents).get(), nullptr,
                                        NoPassphrase, nullptr),
                EVP_PKEY_free);
  if (key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tls_key: ", files.key, " holds no PEM key, or one with a passphrase"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tls_key: ", files.key, " is not the key of ", files.certificate));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls_cert: ", files.certificate, " has expired"));
  }
  if (!files.client_ca.empty()) {
    RETURN_IF_ERROR(ReadCertificate("tls_client_ca", files.client_ca).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(
    const TlsFiles& files) {
  if (!files.enabled()) {
    if (!files.key.empty() || !files.client_ca.empty()) {
      return absl::InvalidArgumentError(
          "tls_cert: missing, tls_key and tls_client_ca need it");
    }
    return grpc::InsecureServerCredentials();
  }
  RETURN_IF_ERROR(CheckTlsFiles(files));
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca,
          files.refresh_seconds));
  options.watch_identity_key_cert_pairs();
  if (files.client_ca.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace comera::server
