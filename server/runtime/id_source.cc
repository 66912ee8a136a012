// Draws ids from the system's random numbers.
#include "server/runtime/id_source.h"

#include <cstdint>
#include <random>

namespace comera::server {

std::string RandomIdSource::NewId() {
  static constexpr char kBase32[] = "abcdefghijklmnopqrstuvwxyz234567";
  std::random_device device;
  uint64_t bits = (static_cast<uint64_t>(device()) << 32) | device();
  std::string id(12, 'a');
  for (char& c : id) {
    c = kBase32[bits & 31];
    bits >>= 5;
  }
  return id;
}

}  // namespace comera::server
