// Fuzzes job files as YAML, JSON and textproto, and field assignments; a valid
// spec must stay valid with its defaults filled in.
#include <string>

#include "client/job_file.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::client::JobFileFormat;
  comera::FuzzInput input(data, size);
  // Corpus files begin with "y", "j", "t" or "=".
  const int kind = input.Choose(256);
  comera::v1::JobSpec spec;
  if (kind == '=') {
    const std::string assignment = input.Part();
    if (!comera::client::SetJobField(assignment, "/folder", &spec).ok()) {
      return 0;
    }
  } else {
    const JobFileFormat format = kind == 'j'   ? JobFileFormat::kJson
                                 : kind == 't' ? JobFileFormat::kTextproto
                                               : JobFileFormat::kYaml;
    auto parsed =
        comera::client::ParseJobFile(input.Rest(), "job.yaml", format);
    if (!parsed.ok()) {
      if (parsed.status().message().empty()) {
        comera::FuzzFailure("an error without a message");
      }
      return 0;
    }
    spec = *parsed;
  }
  comera::client::ResolveDataPaths("/folder", &spec);
  if (!comera::ValidateJobSpec(spec).empty()) return 0;
  const comera::v1::JobSpec full = comera::WithDefaults(spec);
  const auto violations = comera::ValidateJobSpec(full);
  if (!violations.empty()) {
    comera::FuzzFailure("defaults make " + violations[0].field +
                        " invalid: " + violations[0].description);
  }
  if (comera::WithDefaults(full).SerializeAsString().size() !=
      full.SerializeAsString().size()) {
    comera::FuzzFailure("defaults are not filled in at once");
  }
  return 0;
}
