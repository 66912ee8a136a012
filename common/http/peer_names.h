// Names of a connection's other end; for HttpServer's own use.
#ifndef COMERA_COMMON_HTTP_PEER_NAMES_H_
#define COMERA_COMMON_HTTP_PEER_NAMES_H_

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace comera {

// "http:127.0.0.1:40000".
std::string AddressText(const boost::asio::ip::tcp::endpoint& peer);

// The name in the certificate that the peer has shown; empty: none, or it has
// no name.
std::string CommonName(SSL* ssl);

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_PEER_NAMES_H_
