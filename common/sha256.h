#ifndef COMERA_COMMON_SHA256_H_
#define COMERA_COMMON_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

namespace comera {

// Computes a SHA-256 incrementally. Move-only.
class Sha256Stream {
 public:
  Sha256Stream();
  void Add(std::string_view data);
  // Returns lower-case hexadecimal digits; may be called once.
  std::string Finish();

 private:
  std::unique_ptr<void, void (*)(void*)> context_;
};

}  // namespace comera

#endif  // COMERA_COMMON_SHA256_H_
