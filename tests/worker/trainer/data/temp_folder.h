#ifndef COMERA_TESTS_WORKER_TRAINER_DATA_TEMP_FOLDER_H_
#define COMERA_TESTS_WORKER_TRAINER_DATA_TEMP_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace comera::trainer {

// A fresh folder, removed at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "/data_XXXXXX";
    const char* made = mkdtemp(pattern.data());
    EXPECT_NE(made, nullptr);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }
  // Writes a file, folders as needed, and returns its path.
  std::string Write(const std::string& name, std::string_view contents) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

 private:
  std::string path_;
};

// A file of the shared sample data; "" when COMERA_SHARED_DIR does not have it.
inline std::string SharedFile(const std::string& name) {
  const char* root = std::getenv("COMERA_SHARED_DIR");
  if (root == nullptr || *root == '\0') return "";
  const std::string path = std::string(root) + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_DATA_TEMP_FOLDER_H_
