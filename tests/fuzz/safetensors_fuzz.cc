// Fuzzes safetensors files: what can be read must be unchanged when written and
// read again.
#include <string>

#include "common/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  auto file = comera::Safetensors::Parse(input.Rest());
  if (!file.ok()) return 0;
  for (const auto& [name, tensor] : file->tensors()) {
    file->GetFloat(name).status().IgnoreError();
    file->GetInt64(name).status().IgnoreError();
  }
  auto again = comera::Safetensors::Parse(file->Serialize());
  if (!again.ok()) {
    comera::FuzzFailure("not readable again: " +
                        std::string(again.status().message()));
  }
  if (again->metadata() != file->metadata() ||
      again->tensors().size() != file->tensors().size()) {
    comera::FuzzFailure("other contents when read again");
  }
  for (const auto& [name, tensor] : file->tensors()) {
    const auto& other = again->tensors().at(name);
    if (other.bytes != tensor.bytes || other.shape != tensor.shape) {
      comera::FuzzFailure("tensor " + name + " has changed");
    }
  }
  return 0;
}
