// Gloo's TCP transport inside TLS.
#ifndef COMERA_WORKER_COLLECTIVE_GLOO_TLS_H_
#define COMERA_WORKER_COLLECTIVE_GLOO_TLS_H_

#include <cstdint>
#include <memory>
#include <string>

namespace gloo {
namespace transport {
class Device;
namespace tcp {
struct attr;
}  // namespace tcp
}  // namespace transport
}  // namespace gloo

namespace comera::collective {

struct GangTls {
  static constexpr size_t kKeyBytes = 32;

  // What the members of the gang have and nobody else.
  std::string key;
  // A connection takes new keys each time so much was sent on it: AES-GCM is to
  // protect at most 2^24.5 records of 16 KiB (RFC 8446, 5.5).
  uint64_t rekey_bytes = uint64_t{64} << 30;
};

// Returns a device whose connections are TLS 1.3 with a key that both ends have
// beforehand (RFC 8446, 2.2) and a Diffie-Hellman exchange, without
// certificates. The handshake is the proof of both ends that they have the key;
// it is over before Gloo reads or writes a byte. It names both ranks, so that
// what one pair of members sends is of no use to another. Throws what Gloo's
// CreateDevice throws, and gloo::Exception where OpenSSL refuses.
std::shared_ptr<gloo::transport::Device> CreateTlsDevice(
    const gloo::transport::tcp::attr& attr, const GangTls& tls);

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_GLOO_TLS_H_
