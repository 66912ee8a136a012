#ifndef COMERA_TESTS_SERVER_TEMP_DIR_H_
#define COMERA_TESTS_SERVER_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace comera::server {

// A new folder that goes with its owner.
class TempDir {
 public:
  TempDir() : path_(::testing::TempDir() + "/comera_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_TEMP_DIR_H_
