// Parses YAML into a tree of values that know their line numbers.
#ifndef COMERA_PROTO_YAML_TREE_H_
#define COMERA_PROTO_YAML_TREE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera {

struct YamlNode;
using YamlNodePtr = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;
  int line;
  YamlNodePtr value;
};

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  int line = 0;  // from 1
  std::string text;
  bool quoted = false;
  std::vector<YamlNodePtr> items;
  std::vector<YamlEntry> entries;  // in the order of the file
  // The number of nodes in this tree, with aliases expanded.
  int64_t size = 1;
};

// Parses one document. InvalidArgument, beginning with `name:line:`: a syntax
// error, a duplicate key, a key that is not a scalar, a tag, several documents,
// invalid UTF-8, or a document that is too large (1 MiB), too deep (32) or
// grows too large through aliases (10,000 nodes).
absl::StatusOr<YamlNodePtr> ParseYaml(const std::string& contents,
                                      const std::string& name);

}  // namespace comera

#endif  // COMERA_PROTO_YAML_TREE_H_
