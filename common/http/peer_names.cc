// Names a connection's other end by its address and certificate.
#include "common/http/peer_names.h"

#include <openssl/x509.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace comera {

std::string AddressText(const boost::asio::ip::tcp::endpoint& peer) {
  const std::string address = peer.address().to_string();
  return peer.address().is_v6()
             ? absl::StrCat("http:[", address, "]:", peer.port())
             : absl::StrCat("http:", address, ":", peer.port());
}

std::string CommonName(SSL* ssl) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      SSL_get1_peer_certificate(ssl), X509_free);
  if (certificate == nullptr) return "";
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(
      &text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return "";
  std::string name(reinterpret_cast<char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return name;
}

}  // namespace comera
