// Builds the TLS contexts of connections, and rebuilds them when files change.
#include "common/http/tls_context.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/steady_time.h"

namespace comera {
namespace {

using SslContext = boost::asio::ssl::context;

// HTTP/2 is not spoken here.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* in, unsigned in_size, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kHttp11, sizeof(kHttp11) - 1, in,
                            in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Load(
    const TlsFiles& files) {
  RETURN_IF_ERROR(CheckTlsFiles(files));
  std::unique_ptr<TlsContext> result(new TlsContext(files));
  result->fingerprint_ = result->Fingerprint();
  result->next_look_ = SteadyNow() + absl::Seconds(files.refresh_seconds);
  RETURN_IF_ERROR(result->Read());
  return result;
}

void TlsContext::Refresh() {
  if (SteadyNow() < next_look_) return;
  next_look_ = SteadyNow() + absl::Seconds(files_.refresh_seconds);
  const std::string fingerprint = Fingerprint();
  if (fingerprint == fingerprint_) return;
  fingerprint_ = fingerprint;
  absl::Status status = CheckTlsFiles(files_);
  if (status.ok()) status = Read();
  if (status.ok()) {
    LOG(INFO) << "event=tls_files_read certificate=" << files_.certificate;
  } else {
    LOG(WARNING) << "event=tls_files_not_read status=\"" << status << "\"";
  }
}

std::string TlsContext::Fingerprint() const {
  std::string result;
  for (const std::string* path :
       {&files_.certificate, &files_.key, &files_.client_ca}) {
    struct stat info = {};
    if (path->empty() || stat(path->c_str(), &info) != 0) continue;
    absl::StrAppend(&result, info.st_ino, ":", info.st_size, ":",
                    info.st_mtim.tv_sec, ":", info.st_mtim.tv_nsec, ";");
  }
  return result;
}

absl::Status TlsContext::Read() {
  auto fresh = std::make_shared<SslContext>(SslContext::tls_server);
  boost::system::error_code error;
  const auto failed = [&](const char* flag, const std::string& path) {
    return absl::InvalidArgumentError(
        absl::StrCat(files_.flags, flag, ": ", path, ": ", error.message()));
  };
  fresh->set_options(SslContext::default_workarounds | SslContext::no_sslv2 |
                         SslContext::no_sslv3 | SslContext::no_tlsv1 |
                         SslContext::no_tlsv1_1 | SslContext::no_compression,
                     error);
  fresh->use_certificate_chain_file(files_.certificate, error);
  if (error) return failed("cert", files_.certificate);
  fresh->use_private_key_file(files_.key, SslContext::pem, error);
  if (error) return failed("key", files_.key);
  if (!files_.client_ca.empty()) {
    fresh->load_verify_file(files_.client_ca, error);
    if (error) return failed("client_ca", files_.client_ca);
    fresh->set_verify_mode(boost::asio::ssl::verify_peer |
                           boost::asio::ssl::verify_fail_if_no_peer_cert);
  }
  SSL_CTX* native = fresh->native_handle();
  SSL_CTX_set_alpn_select_cb(native, ChooseProtocol, nullptr);
  // Sessions are resumed by tickets; with certificates of clients they need a
  // name of the server's.
  static constexpr unsigned char kId[] = "comera";
  SSL_CTX_set_session_id_context(native, kId, sizeof(kId) - 1);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  context_ = std::move(fresh);
  return absl::OkStatus();
}

}  // namespace comera
