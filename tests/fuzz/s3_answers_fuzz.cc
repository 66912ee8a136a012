// Fuzzes the answers of S3 services: the first byte chooses which one the rest
// is.
#include <string>
#include <vector>

#include "common/object_store/s3_answers.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  const int kind = input.Choose(4);
  const std::string xml = input.Rest();
  if (kind == 0) {
    const auto listing = comera::ParseS3Listing(xml);
    for (const auto& object : listing.ok()
                                  ? listing->objects
                                  : std::vector<comera::S3Listing::Object>()) {
      if (object.size < 0) comera::FuzzFailure("an object of negative size");
    }
  } else if (kind == 1) {
    (void)comera::ParseS3Uploads(xml);
  } else if (kind == 2) {
    const auto id = comera::ParseS3UploadId(xml);
    if (id.ok() && id->empty()) comera::FuzzFailure("an upload without an id");
  } else {
    comera::ParseS3Completion(xml).IgnoreError();
    (void)comera::ParseS3ErrorCode(xml);
  }
  return 0;
}
