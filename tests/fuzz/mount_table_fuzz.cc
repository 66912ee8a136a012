// Fuzzes tables of mounts, which hold names that others have chosen: a path,
// and the table in which its other names are looked for.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/data/mount_table.h"

namespace {

// An absolute name without empty parts.
std::string PathOf(const std::string& text) {
  std::string path;
  for (const absl::string_view part :
       absl::StrSplit(text, '/', absl::SkipEmpty())) {
    if (part != ".") absl::StrAppend(&path, "/", part);
  }
  return path.empty() ? "/" : path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const std::string path = PathOf(input.Part());
  const std::string text = input.Rest();
  const auto table = comera::worker::MountTable::Parse(text);
  const auto lines =
      static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const std::vector<std::string> names = table.NamesOf(path);
  if (table.kernel_state().size() > lines || names.size() > lines) {
    comera::FuzzFailure("more mounts than lines");
  }
  if (!names.empty() &&
      std::find(names.begin(), names.end(), path) == names.end()) {
    comera::FuzzFailure("a path that is none of its own names");
  }
  return 0;
}
