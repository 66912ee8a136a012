// Feeds the files of a folder to a fuzz target's entry point; fails if there
// are none. To examine one input, give it as the argument.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE|FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(argv[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      files.push_back(entry.path());
    }
  } else {
    files.push_back(argv[1]);
  }
  LLVMFuzzerTestOneInput(nullptr, 0);
  int replayed = 0;
  for (const auto& path : files) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) continue;
    const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                           bytes.size());
    ++replayed;
  }
  std::printf("%d inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
