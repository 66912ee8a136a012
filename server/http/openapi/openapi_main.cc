// Writes openapi.json at build time: only then have descriptors comments.
//
//   openapi_main RULES.yaml DESCRIPTOR_SET > openapi.json
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "common/version.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/http/openapi/openapi.h"

namespace {

std::string Contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " RULES DESCRIPTOR_SET\n";
    return 2;
  }
  google::protobuf::FileDescriptorSet set;
  if (!set.ParseFromString(Contents(argv[2]))) {
    std::cerr << argv[2] << ": no descriptor set\n";
    return 1;
  }
  google::protobuf::DescriptorPool pool;
  for (const auto& file : set.file()) {
    if (pool.BuildFile(file) == nullptr) return 1;
  }
  const auto rules = comera::server::ParseHttpRules(Contents(argv[1]), &pool);
  if (!rules.ok()) {
    std::cerr << argv[1] << ": " << rules.status().message() << "\n";
    return 1;
  }
  std::cout << comera::server::DescribeApi(*rules, comera::kVersion).dump()
            << "\n";
  return 0;
}
