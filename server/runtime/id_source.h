#ifndef COMERA_SERVER_RUNTIME_ID_SOURCE_H_
#define COMERA_SERVER_RUNTIME_ID_SOURCE_H_

#include <string>

namespace comera::server {

// Source of job ids. Not thread-safe.
class IdSource {
 public:
  virtual ~IdSource() = default;
  // 12 characters of [a-z2-7]; the caller checks for a collision.
  virtual std::string NewId() = 0;
};

// 60 bits of the operating system's randomness per id.
class RandomIdSource : public IdSource {
 public:
  std::string NewId() override;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_ID_SOURCE_H_
