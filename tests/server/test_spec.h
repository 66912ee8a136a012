#ifndef COMERA_TESTS_SERVER_TEST_SPEC_H_
#define COMERA_TESTS_SERVER_TEST_SPEC_H_

#include "comera/v1/job.pb.h"

namespace comera::server {

// A small specification that passes validation.
inline v1::JobSpec TestSpec(int ranks = 2) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::MASKED_LM);
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  v1::DataSpec& data = *spec.mutable_data();
  data.mutable_code_directory()->add_roots("/usr/include");
  data.mutable_code_directory()->add_globs("*.h");
  data.mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
  data.mutable_tokenizer()->set_train_vocabulary_size(1000);
  data.set_max_length(32);
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  spec.mutable_objective()->mutable_early()->set_steps(100);
  spec.mutable_training()->set_batch_size(8);
  spec.mutable_resources()->set_device(v1::ResourceSpec::CPU);
  spec.mutable_resources()->set_processes(ranks);
  return spec;
}

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_TEST_SPEC_H_
