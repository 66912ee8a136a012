#ifndef COMERA_TESTS_SERVER_SEQUENTIAL_IDS_H_
#define COMERA_TESTS_SERVER_SEQUENTIAL_IDS_H_

#include <string>

#include "server/runtime/id_source.h"

namespace comera::server {

// aaaaaaaaaaaa, baaaaaaaaaaa, ... Not thread-safe.
class SequentialIds : public IdSource {
 public:
  std::string NewId() override {
    std::string id(12, 'a');
    int rest = next_++;
    for (char& c : id) {
      c = static_cast<char>('a' + rest % 26);
      rest /= 26;
    }
    return id;
  }

 private:
  int next_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SEQUENTIAL_IDS_H_
